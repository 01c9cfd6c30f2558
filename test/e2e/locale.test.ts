import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

const value = 'Ünï „☃“ 日本 🎉';

const bundle = (image: string) => `name: locale
version: 1.0.0
description: Grüße – 日本語
invocationImages:
  - {name: tools, image: "${image}", network: none}
parameters:
  - {name: wert, type: string, default: größe ☃}
outputs:
  - {name: ergebnis, type: string}
install:
  - description: Schritt ä
    id: work
    invoke:
      name: tools
      action:
        run: |
          echo "Ausgabe é: \${ bundle.parameters.wert }"
          printf %s \${ bundle.parameters.wert } >outputs/ergebnis
          cat dätei-ö.txt
`;

describe.each(enginesToTest('oci-runtime'))('whatever the locale, on %s', (engine) => {
  let world: World;
  let image: string;
  beforeAll(async () => {
    world = await makeWorld(engine);
    image = await world.image('tools:1');
    expectCode(await world.skycap(['image', 'pull', image]), 0);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  /** What commands print, without what is another one each time. */
  async function printed(env: Readonly<Record<string, string>>): Promise<string> {
    const cwd = world.bundle({ 'porter.yaml': bundle(image), 'dätei-ö.txt': 'Inhalt ß\n' });
    const all: string[] = [];
    const show = async (args: readonly string[], code = 0): Promise<void> => {
      const { stdout, stderr } = expectCode(await world.skycap(args, { cwd, env }), code);
      all.push(stdout, stderr);
    };
    await show(['lock']);
    await show(['explain']);
    await show(['install', 'größer', '--param', 'wert=@dätei-ö.txt'], 2);
    await show(['install', 'one', '--param', `wert=${value}`]);
    await show(['output', 'show', 'ergebnis', '-i', 'one']);
    await show(['installation', 'show', 'one', '-o', 'json']);
    await show(['run', 'logs', '-i', 'one']);
    await show(['lint', '--file', 'nicht-dä.yaml'], 11);
    await show(['installation', 'delete', 'one', '--force']);
    return all
      .join('\n')
      .replace(/\b01[0-9A-Z]{24}\b/g, 'ID')
      .replace(/bundle-\w+/g, 'BUNDLE')
      .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
      .replace(/(succeeded|failed) in .*/g, '$1 in TIME');
  }

  it('the same bytes go in and come out', async () => {
    const expected = await printed({ LANG: 'C.UTF-8' });
    for (const text of [value, 'Ausgabe é: ', 'Inhalt ß', 'Schritt ä', 'Grüße – 日本語', 'nicht-dä.yaml'])
      expect(expected).toContain(text);
    expect(await printed({ LANG: '' })).toBe(expected);
    expect(await printed({ LANG: 'de_DE.ISO-8859-1', LC_ALL: 'C' })).toBe(expected);
  });
});
