import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ignoreEvents } from '../../src/kernel/index.ts';
import { buildIndex } from '../../src/oci/image/index.ts';
import { digestOf, hostPlatform } from '../../src/oci/names/index.ts';
import { makeImage } from '../../src/testkit/images/index.ts';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type Ran, type World } from '../support/world.ts';

interface Pin {
  readonly reference: string;
  readonly digest: string;
}
interface LockJson {
  readonly invocationImages: Readonly<
    Record<string, Pin & { readonly platforms: Readonly<Record<string, Record<string, unknown>>> }>
  >;
  readonly images: Readonly<Record<string, Pin>>;
  readonly dependencies: Readonly<Record<string, Pin>>;
}

const here = hostPlatform({ platform: process.platform, arch: process.arch });
const own = `${here.os}/${here.architecture}${here.variant === undefined ? '' : `/${here.variant}`}`;
const described = {
  description: 'releases charts',
  inputs: {
    release: { type: 'string', pattern: '^[a-z]+$' },
    replicas: { type: 'integer', minimum: 1 },
    'dry-run': { type: 'boolean' },
  },
  required: ['release'],
  credentials: ['token'],
  command: [
    'sh',
    '-c',
    'echo "command: $INPUT_RELEASE/$INPUT_REPLICAS/$INPUT_DRY_RUN"; cat /cnab/context.json > /cnab/app/outputs/context',
  ],
};
const digest = expect.stringMatching(/^sha256:[0-9a-f]{64}$/);

describe.each(enginesToTest('oci-runtime'))('porter.lock and interfaces, on %s', (engine) => {
  let world: World;
  let tools: string;
  let helm: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    tools = await world.image('tools:1', {
      busybox: true,
      files: { version: 'first\n' },
      config: { entrypoint: ['echo', 'entrypoint'], cmd: ['and cmd'], env: ['TOOL=1'], workingDir: '/tmp' },
    });
    helm = await twoPlatforms('helm:1');
    await world.image('web:1', { files: { web: '1' } });
  });
  afterAll(() => world[Symbol.asyncDispose]());

  async function twoPlatforms(name: string): Promise<string> {
    const config = { labels: { 'dev.skycap.interface': JSON.stringify(described) }, user: '1000' };
    const images = await Promise.all(
      [here, { os: 'linux', architecture: here.architecture === 'arm64' ? 'amd64' : 'arm64' }].map(
        (platform, i) =>
          makeImage(world.images, { busybox: true, config, platform, reference: `localhost/part:${i}` }),
      ),
    );
    const signal = new AbortController().signal;
    await buildIndex(world.images, images, { reference: `localhost/${name}`, signal, emit: ignoreEvents });
    return `${world.registry}/${name}`;
  }

  const header = (name: string, rest = ''): string => `name: ${name}
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"}
  - {name: helm, image: "${helm}"}
images:
  web: {repository: "${world.registry}/web", tag: "1"}
credentials:
  - {name: token, env: TOKEN}
${rest}`;

  const install = `install:
  - {id: tool, invoke: {name: tools, action: {command: [sh, -c, 'cat /version; echo "\${WEB}"']}, env: {WEB: "\${ bundle.images.web.digest }"}}}
  - {id: release, credentials: [token], invoke: {name: helm, action: {with: {release: app, replicas: 2}}}}
`;

  const lockOf = (cwd: string): LockJson =>
    JSON.parse(readFileSync(join(cwd, 'porter.lock'), 'utf8')) as LockJson;
  const credential = ['--credential', 'token=command:echo secret'];

  async function locked(name: string, steps = install): Promise<string> {
    const cwd = world.bundle({ 'porter.yaml': header(name, steps) });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    return cwd;
  }

  function started(ran: Ran): boolean {
    return ran.events.some((event) => String(event.type).startsWith('step.'));
  }

  it('B20 pins every invocation image by platform, every entry of images: and every dependency', async () => {
    const dependencies = `dependencies:\n  requires:\n    - {name: db, bundle: {reference: "${world.registry}/web:1"}}\n`;
    const cwd = await locked('pinned', install + dependencies);

    const lock = lockOf(cwd);

    expect(Object.keys(lock.invocationImages)).toEqual(['helm', 'tools']);
    expect(lock.invocationImages.tools).toEqual({
      reference: tools,
      digest,
      platforms: {
        [own]: {
          digest,
          entrypoint: ['echo', 'entrypoint'],
          cmd: ['and cmd'],
          env: ['TOOL=1'],
          user: '',
          workingDir: '/tmp',
          size: expect.any(Number),
        },
      },
    });
    const chart = lock.invocationImages.helm;
    expect(chart?.reference).toBe(helm);
    expect(Object.keys(chart?.platforms ?? {}).sort()).toEqual(['linux/amd64', 'linux/arm64']);
    for (const platform of Object.values(chart?.platforms ?? {})) {
      expect(platform).toMatchObject({ digest, user: '1000', interface: described });
      expect(platform.digest).not.toBe(chart?.digest);
    }
    const web = { reference: `${world.registry}/web:1`, digest, seal: digest };
    expect(lock.images).toEqual({ web });
    expect(lock.dependencies).toEqual({ db: web });
    expect(lock.images.web?.digest).toBe((await world.images.resolve('localhost/web:1'))?.digest);
  });

  it('B21 B23 S7 keeps what fits, warns of tags that moved, moves them when told and says from where to where', async () => {
    const first = await world.image('moving:1', { busybox: true, files: { version: 'first\n' } });
    const cwd = world.bundle({ 'porter.yaml': header('moving', install).replace(tools, first) });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    const before = lockOf(cwd);
    await world.image('moving:1', { busybox: true, files: { version: 'second\n' } });
    const moved = (await world.images.resolve('localhost/moving:1'))?.digest as string;
    expect(moved).not.toBe(before.invocationImages.tools?.digest);
    const short = (text: string | undefined): string => (text ?? '').slice('sha256:'.length).slice(0, 12);

    // A run asks nobody for the tag, says nothing of it, and runs what was pinned.
    const asked = world.requests.length;
    const ran = await world.skycap(['install', '--progress', 'json', ...credential], { cwd });
    expect(expectCode(ran, 0).stderr).toContain('first');
    expect(ran.stderr).not.toContain('second');
    expect(ran.stderr).not.toMatch(/moved/);
    const tags = world.requests.slice(asked).filter(({ path }) => /\/manifests\/(?!sha256:)/.test(path));
    expect(tags).toEqual([]);

    // lint asks only when told; what is there is kept, and what is missing is added.
    const quiet = await world.skycap(['lint', '-o', 'json'], { cwd });
    expect(expectCode(quiet, 0).stdout).not.toContain('moved-tag');
    const linted = expectCode(await world.skycap(['lint', '--tags'], { cwd }), 0);
    expect(linted.stdout).toMatch(/porter\.yaml:4:26: warning: .*moving:1 names sha256:/);
    const entry = lockOf(cwd) as unknown as { invocationImages: Record<string, unknown> };
    delete entry.invocationImages.helm;
    writeFileSync(join(cwd, 'porter.lock'), JSON.stringify(entry));
    const again = expectCode(await world.skycap(['lock'], { cwd }), 0);
    expect(again.stdout).toMatch(/added\s+helm/);
    expect(again.stdout).toMatch(/warning: the tag has moved on: moved\s+tools/);
    expect(lockOf(cwd)).toEqual(before);

    const updated = expectCode(await world.skycap(['lock', '--update', 'tools'], { cwd }), 0);
    expect(updated.stdout).toMatch(/moved\s+tools/);
    expect(updated.stdout).toContain(short(before.invocationImages.tools?.digest));
    expect(updated.stdout).toContain(short(moved));
    expect(updated.stdout).not.toMatch(/helm|web/);
    expect(lockOf(cwd)).toMatchObject({
      invocationImages: { tools: { digest: moved }, helm: before.invocationImages.helm },
      images: before.images,
    });
    const unknown = expectCode(await world.skycap(['lock', '--update', 'tool'], { cwd }), 16);
    expect(unknown.stderr).toMatch(/LOCK_NAME_UNKNOWN[\s\S]*did you mean tools/);
  });

  it('B22 ends without a lock or an entry, names the command and writes nothing', async () => {
    const cwd = world.bundle({ 'porter.yaml': header('lockless', install) });
    const file = join(cwd, 'porter.lock');

    const missing = expectCode(await world.skycap(['install', ...credential], { cwd }), 16);

    expect(missing.stderr).toContain('LOCK_MISSING');
    expect(missing.stderr).toContain('skycap lock');
    expect(existsSync(file)).toBe(false);
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    for (const [group, name] of [
      ['invocationImages', 'tools'],
      ['images', 'web'],
    ] as const) {
      const whole = readFileSync(file, 'utf8');
      const lock = JSON.parse(whole) as Record<string, Record<string, unknown>>;
      delete lock[group]?.[name];
      writeFileSync(file, JSON.stringify(lock));
      const part = expectCode(
        await world.skycap(['install', '--progress', 'json', ...credential], { cwd }),
        16,
      );
      expect(part.stderr).toContain('LOCK_ENTRY_MISSING');
      expect(part.stderr).toContain(name);
      expect(part.stderr).toContain('skycap lock');
      expect(started(part)).toBe(false);
      expect(readFileSync(file, 'utf8')).toBe(JSON.stringify(lock));
      writeFileSync(file, whole);
    }
  });

  // Every edit runs in process in src/images/lock.test.ts; here are those of each kind, through the program.
  it('B24 gains nothing from an edited lock', async () => {
    const cwd = await locked('edited');
    const file = join(cwd, 'porter.lock');
    const whole = readFileSync(file, 'utf8');
    const all = edits(JSON.parse(whole), own);
    expect(all.length).toBeGreaterThan(60);
    const fields = [
      'reference',
      'digest',
      'entrypoint',
      'cmd',
      'env',
      'user',
      'workingDir',
      'size',
      'interface',
      'seal',
    ];
    const sample = [...fields, 'lockVersion'].flatMap((field) => {
      const fitting = all.filter((edit) => edit.path.includes(field));
      return [fitting[0], fitting.at(-1)].flatMap((edit) => edit ?? []);
    });
    expect(sample.length).toBeGreaterThan(20);
    const outcomes: string[] = [];
    for (const edit of sample) {
      writeFileSync(file, edit.text);
      const ran = await world.skycap(
        ['install', 'edited', '--dry-run', '--progress', 'json', ...credential],
        { cwd },
      );
      outcomes.push(`${edit.kind} ${edit.path.join('.')}: ${ran.code === 0 ? 'went through' : 'refused'}`);
      expect(started(ran)).toBe(false);
    }
    expect(outcomes.filter((outcome) => !outcome.endsWith('refused'))).toEqual([]);
    // And one for real: no container starts.
    const entrypoint = all.find((edit) => edit.path.includes('entrypoint'));
    writeFileSync(file, entrypoint?.text ?? '');
    const refused = await world.skycap(['install', 'edited', '--progress', 'json', ...credential], { cwd });
    expectCode(refused, 30);
    expect(refused.stderr).toContain('LOCK_MISMATCH');
    expect(started(refused)).toBe(false);
    // A lock that cannot be read is mended by moving everything.
    writeFileSync(file, '{"lockVersion": 1,');
    expectCode(await world.skycap(['install', 'edited', ...credential], { cwd }), 16);
    expectCode(await world.skycap(['lock', '--update'], { cwd }), 0);
    expect(readFileSync(file, 'utf8')).toBe(whole);
  });

  it('B25 checks `with` against the interface that the lock holds', async () => {
    const steps = `install:
  - {credentials: [token], invoke: {name: helm, action: {with: {relase: app}}}}
  - {credentials: [token], invoke: {name: helm, action: {with: {release: App, replicas: two}}}}
  - {credentials: [], invoke: {name: helm, action: {with: {release: app}}}}
  - {credentials: [token], invoke: {name: helm}}
  - {credentials: [token], invoke: {name: helm, action: {with: {release: "\${ installation.name }", replicas: 2}}}}
`;
    const cwd = world.bundle({ 'porter.yaml': header('checked', steps) });
    const before = await world.skycap(['lint', '-o', 'json'], { cwd });
    expect(
      expectCode(before, 0)
        .json<{ problems: { severity: string }[] }>()
        .problems.filter((one) => one.severity === 'error'),
    ).toEqual([]);
    expectCode(await world.skycap(['lock'], { cwd }), 0);

    const ran = expectCode(await world.skycap(['lint', '-o', 'json'], { cwd }), 10);

    const { problems } = ran.json<{
      problems: { severity: string; code: string; line: number; column: number; hint?: string }[];
    }>();
    const errors = problems.filter((one) => one.severity === 'error');
    expect(errors.map(({ line, column, code }) => `${line}:${column} ${code}`)).toEqual([
      '11:58 missing-input',
      '11:65 unknown-input',
      '12:74 bad-input',
      '12:89 bad-input',
      '13:53 missing-credential',
      '14:43 missing-input',
    ]);
    expect(errors[1]?.hint).toContain('release');
    const refused = await world.skycap(['install', '--progress', 'json', ...credential], { cwd });
    expectCode(refused, 10);
    expect(started(refused)).toBe(false);
    expectCode(await world.skycap(['lint', '--fix'], { cwd }), 10);
    expect(readFileSync(join(cwd, 'porter.yaml'), 'utf8')).toContain('{with: {release: app}}');
  });

  it('B26 B27 hands over `with` typed, and runs the interface’s command, else entrypoint and cmd', async () => {
    const cwd = await locked(
      'handed',
      `parameters:
  - {name: count, type: integer, default: 3}
outputs:
  - {name: context, type: string, sensitive: false}
install:
  - {id: plain, invoke: {name: tools}}
  - id: release
    credentials: [token]
    invoke:
      name: helm
      action: {with: {release: "\${ installation.name }", replicas: "\${ bundle.parameters.count }", dry-run: true}}
`,
    );

    const ran = expectCode(await world.skycap(['install', ...credential], { cwd }), 0);

    expect(ran.stderr).toContain('entrypoint and cmd');
    expect(ran.stderr).toContain('command: handed/3/true');
    const shown = expectCode(await world.skycap(['output', 'show', 'context', '-i', 'handed'], { cwd }), 0);
    expect(JSON.parse(shown.stdout)).toMatchObject({
      step: { with: { release: 'handed', replicas: 3, 'dry-run': true } },
    });
    rmSync(cwd, { recursive: true });
  });
});

interface Edit {
  readonly kind: 'change' | 'delete';
  readonly path: readonly (string | number)[];
  readonly text: string;
}

/** Every change and removal of one scalar or list that a run on this platform uses. */
function edits(lock: unknown, platform: string): readonly Edit[] {
  const paths = leaves(lock).filter((path) => path[2] !== 'platforms' || path[3] === platform);
  return paths.flatMap((path) =>
    (['change', 'delete'] as const).map((kind) => {
      const copy = structuredClone(lock) as Record<string | number, unknown>;
      let parent = copy;
      for (const key of path.slice(0, -1)) parent = parent[key] as Record<string | number, unknown>;
      const last = path.at(-1) as string | number;
      if (kind === 'change') parent[last] = changed(parent[last]);
      else if (Array.isArray(parent)) parent.splice(last as number, 1);
      else delete parent[last];
      return { kind, path, text: JSON.stringify(copy) };
    }),
  );
}

function leaves(value: unknown, path: readonly (string | number)[] = []): (readonly (string | number)[])[] {
  if (typeof value !== 'object' || value === null) return [path];
  const inner = Object.entries(value).flatMap(([key, item]) =>
    leaves(item, [...path, Array.isArray(value) ? Number(key) : key]),
  );
  return Array.isArray(value) ? [path, ...inner] : inner;
}

function changed(value: unknown): unknown {
  if (typeof value === 'number') return value + 1;
  if (Array.isArray(value)) return [...value, 'x'];
  return String(value).startsWith('sha256:') ? digestOf('other') : `${String(value)}x`;
}
