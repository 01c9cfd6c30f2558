import { readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

const bytes = Buffer.from([0xff, 0x00, 0x80, 0x0a]);
const inBase64 = bytes.toString('base64');
const told = '4 bytes, binary: skycap output show picture > FILE';

describe.each(enginesToTest('oci-runtime'))('what goes to stdout, on %s', (engine) => {
  let world: World;
  let cwd: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    const tools = await world.image('acme/tools:1');
    cwd = world.bundle({
      'porter.yaml': `name: shown
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"}
outputs:
  - {name: picture, type: file}
  - {name: key, type: file, sensitive: true}
install: &steps
  - {id: only, description: Only, when: true, invoke: {name: tools, action: {run: "cp picture outputs/picture; cp picture outputs/key"}}}
  - {id: never, description: Never, when: false, invoke: {name: tools, action: {run: "exit 1"}}}
upgrade: *steps
`,
      picture: bytes,
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  it('tells the size of a binary output, gives it as base64 in JSON, and writes its bytes', async () => {
    const text = expectCode(await world.skycap(['install'], { cwd }), 0);
    expect(text.stdout).toMatch(new RegExp(`^picture +${told}$`, 'm'));
    expect(text.stderr).toContain(`output picture = ${told}`);
    const json = expectCode(await world.skycap(['upgrade', '-o', 'json', '--progress', 'json'], { cwd }), 0);
    const asJson = { name: 'picture', sensitive: false, value: inBase64, encoding: 'base64' };
    const { outputs, steps } = json.json<{ outputs: unknown[]; steps: unknown[] }>();
    expect(outputs).toContainEqual(asJson);
    expect(json.events).toContainEqual(expect.objectContaining({ type: 'output.collected', ...asJson }));
    expect(steps).toMatchObject([
      { id: 'only', state: 'succeeded' },
      { id: 'never', state: 'skipped' },
    ]);

    const of = ['-i', 'shown'];
    expect((await world.skycap(['output', 'list', ...of])).stdout).toMatch(new RegExp(`picture .* ${told}`));
    const listed = await world.skycap(['output', 'list', ...of, '-o', 'json']);
    expect(listed.json<unknown[]>()).toContainEqual(expect.objectContaining(asJson));
    expect(listed.stdout).toContain('"value": "******"');
    const file = join(world.directory, 'picture');
    const within = ['sh', '-c', 'file=$1; shift; exec "$@" > "$file"', 'sh', file];
    expectCode(await world.skycap(['output', 'show', 'picture', ...of], { within }), 0);
    expect(readFileSync(file).equals(bytes)).toBe(true);
    // A variable for all commands does not change what scripts redirect.
    expectCode(
      await world.skycap(['output', 'show', 'picture', ...of], { within, env: { SKYCAP_OUTPUT: 'json' } }),
      0,
    );
    expect(readFileSync(file).equals(bytes)).toBe(true);
    const shown = await world.skycap(['output', 'show', 'picture', ...of, '-o', 'json']);
    expect(shown.json()).toMatchObject({ ...asJson, sizeBytes: 4 });
    const secret = await world.skycap(['output', 'show', 'key', ...of, '-o', 'yaml']);
    expect(expectCode(secret, 0).stdout).toContain(inBase64);
  });

  it.each([['version'], ['version -o json'], ['schema'], ['list'], ['output show picture -i shown']])(
    'does not say that it went well where nobody can have read it: %s',
    async (line) => {
      const args = line.split(' ');
      const full = await world.skycap(args, { within: ['sh', '-c', 'exec "$@" > /dev/full', 'sh'] });
      expect(expectCode(full, 62).stderr).toMatch(/DISK_FULL.*standard output takes no more/);
      // A reader that has gone has read what it wanted.
      const gone = await world.skycap(args, { within: ['bash', '-c', 'exec "$@" > >(exec true)', 'bash'] });
      expect(expectCode(gone, 0).stderr).toBe('');
    },
  );

  it('ends an action as it ended where nobody can take its events', async () => {
    const within = ['sh', '-c', 'exec "$@" 2> /dev/full', 'sh'];
    expectCode(await world.skycap(['upgrade'], { cwd, within }), 0);
  });

  it('leaves a lock that says the same as it is', async () => {
    const file = join(cwd, 'porter.lock');
    utimesSync(file, 1_000_000_000, 1_000_000_000);
    const { ino } = statSync(file);
    expect(expectCode(await world.skycap(['lock'], { cwd }), 0).stdout).toContain('up to date');
    const again = expectCode(await world.skycap(['lock', '-o', 'json'], { cwd }), 0).stdout;
    expect(JSON.parse(again)).toMatchObject({ written: false, changes: [] });
    expect(statSync(file)).toMatchObject({ ino, mtimeMs: 1_000_000_000_000 });
    writeFileSync(file, `${readFileSync(file, 'utf8')}\n`);
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    expect(statSync(file).mtimeMs).not.toBe(1_000_000_000_000);
  });

  it('prints the schema as JSON or YAML', async () => {
    const json = expectCode(await world.skycap(['schema', '-o', 'json']), 0);
    expect(json.stdout).toBe((await world.skycap(['schema'])).stdout);
    expect(expectCode(await world.skycap(['schema', '-o', 'yaml']), 0).stdout).toMatch(/^"?\$schema"?: /);
  });

  it.each(['XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'XDG_CACHE_HOME', 'XDG_RUNTIME_DIR', 'HOME'])(
    'comes to an end where no folder can be made: %s',
    async (variable) => {
      const env = { [variable]: '/proc/self' };
      for (const args of [['list'], ['upgrade'], ['image', 'list'], ['doctor']]) {
        const ran = await world.skycap(args, { cwd, env });
        expect(ran.signal, `${args.join(' ')}: ${ran.stderr}`).toBe(null);
        expect(ran.stderr).not.toContain('INTERNAL');
      }
    },
  );
});
