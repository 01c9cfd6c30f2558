import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Home, makeHome } from '../support/skycap.ts';

let home: Home;

beforeEach(async () => {
  home = await makeHome();
});

afterEach(async () => {
  await home[Symbol.asyncDispose]();
});

describe('skycap create', () => {
  test('makes a bundle that lints clean', async () => {
    expect((await home.run(['create', 'my-app'])).exitCode).toBe(0);
    const lint = await home.run(['lint', '-f', 'my-app', '-o', 'json']);
    expect(JSON.parse(lint.stdout)).toEqual({ file: 'my-app/porter.yaml', fixed: 0, problems: [] });
    expect(lint.exitCode).toBe(0);
  });

  test('makes an image that describes itself, whose bundle lints clean and whose test passes', async () => {
    expect((await home.run(['create', '--image', 'site-tools'])).exitCode).toBe(0);
    const lint = await home.run(['lint', '-f', 'site-tools', '-o', 'json']);
    expect(JSON.parse(lint.stdout).problems).toEqual([]);
    const dockerfile = readFileSync(join(home.folder, 'site-tools/image/Dockerfile'), 'utf8');
    const label = /dev\.skycap\.interface='([^']*)'/.exec(dockerfile)?.[1]?.replaceAll('\\\n', '') ?? '';
    expect(JSON.parse(label)).toMatchObject({
      inputs: { whom: { type: 'string' } },
      outputs: { greeting: {} },
    });
    expect(execFileSync('sh', [join(home.folder, 'site-tools/test.sh')]).toString()).toBe('ok\n');
  });

  test.each([
    ['README.md', 1],
    ['docs/bundle.md', 2],
  ])('and the bundles that %s shows have no errors', async (page, bundles) => {
    const text = readFileSync(join(import.meta.dirname, '../..', page), 'utf8');
    const shown = [...text.matchAll(/^```yaml\n(name: .*?)^```/gms)];
    expect(shown).toHaveLength(bundles);
    for (const [, bundle = ''] of shown) {
      writeFileSync(join(home.folder, 'porter.yaml'), bundle);
      const { exitCode, stdout } = await home.run(['lint']);
      expect({ exitCode, stdout }).toMatchObject({
        exitCode: 0,
        stdout: expect.not.stringContaining('error'),
      });
    }
  });

  test('overwrites nothing', async () => {
    writeFileSync(join(home.folder, 'porter.yaml'), 'mine');
    const ran = await home.run(['create']);
    expect(ran.exitCode).toBe(2);
    expect(ran.stderr).toContain('porter.yaml already');
    expect(readFileSync(join(home.folder, 'porter.yaml'), 'utf8')).toBe('mine');
    expect(existsSync(join(home.folder, 'README.md'))).toBe(false);
  });

  test('a name must be one', async () => {
    expect((await home.run(['create', 'My App'])).exitCode).toBe(2);
  });
});

describe('skycap lint', () => {
  const broken =
    'schemaVersion: 1.0.1\nname: x\nversion: 0.1.0\nparametrs: []\ninvocationImages:\n  - name: tools\n    imgae: a/b:1\ninstall: []\n';

  test('tells all errors with their places, and exits with 10', async () => {
    writeFileSync(join(home.folder, 'porter.yaml'), broken);
    const text = await home.run(['lint']);
    expect(text.exitCode).toBe(10);
    expect(text.stdout).toMatch(/^porter\.yaml:7:5: error: .*imgae/m);
    const json = JSON.parse((await home.run(['lint', '-o', 'json'])).stdout);
    expect(json.problems).toContainEqual(
      expect.objectContaining({ severity: 'error', line: 7, column: 5, file: 'porter.yaml' }),
    );
    const sarif = JSON.parse((await home.run(['lint', '-o', 'sarif'])).stdout);
    expect(sarif).toMatchObject({ version: '2.1.0', runs: [{ tool: { driver: { name: 'skycap' } } }] });
    expect(sarif.runs[0].results.length).toBe(json.problems.length);
  });

  test('a file that is not there is named', async () => {
    const ran = await home.run(['lint']);
    expect(ran.exitCode).toBe(11);
    expect(ran.stderr).toContain('[BUNDLE_NOT_FOUND]');
    expect(ran.stderr).toContain('skycap create');
  });

  test('--fix mends what can be mended; a second time changes nothing', async () => {
    const source = `schemaVersion: 1.0.1
name: x
version: 0.1.0
description: x
invocationImages:
  - name: tools
    image: localhost/tools:1
parameters:
  - {name: who, type: string, default: you}
install:
  - description: Greet # keep this
    invoke:
      name: tools
      action:
        run: |
          echo '\${ bundle.parameters.who }'
`;
    const file = join(home.folder, 'porter.yaml');
    writeFileSync(file, source);
    expect((await home.run(['lint'])).exitCode).toBe(10);
    const fixed = await home.run(['lint', '--fix']);
    expect(fixed.exitCode).toBe(0);
    const once = readFileSync(file, 'utf8');
    expect(once).not.toBe(source);
    expect(once).toContain('# keep this');
    expect((await home.run(['lint', '--fix'])).exitCode).toBe(0);
    expect(readFileSync(file, 'utf8')).toBe(once);
  });
});

describe('skycap explain', () => {
  test("keeps Porter's keys and adds to them", async () => {
    await home.run(['create', 'my-app']);
    const { stdout, exitCode } = await home.run(['explain', '-f', 'my-app', '-o', 'json']);
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      name: 'my-app',
      version: '0.1.0',
      parameters: [
        {
          name: 'place',
          type: 'string',
          default: 'world',
          applyTo: 'All Actions',
          required: false,
          sensitive: false,
          injected: false,
        },
      ],
      outputs: [{ name: 'greeting', type: 'string', applyTo: 'All Actions' }],
      mixins: [],
      invocationImages: [{ name: 'tools', image: 'docker.io/library/busybox:1.37' }],
      steps: { install: [{ id: 'greet', image: 'tools' }] },
    });
  });

  test('text names what to give', async () => {
    await home.run(['create', 'my-app']);
    const { stdout } = await home.run(['explain', '-f', 'my-app']);
    expect(stdout).toContain('Install it with: skycap install');
  });
});
