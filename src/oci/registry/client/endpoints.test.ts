import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RegistryRule } from '../../../settings/index.ts';
import { loadSettings } from '../../../settings/load.ts';
import { codeFrom } from '../../../testkit/coded.ts';
import { asking, codeOf, type Reply, scriptedRegistry } from '../../../testkit/registry/index.ts';
import { digestOf, parseReference } from '../../names/index.ts';
import { endpointsOf } from './endpoints.ts';

const rule = (prefix: string, more: Partial<RegistryRule> = {}): RegistryRule => ({
  prefix,
  mirrors: [],
  insecure: false,
  blocked: false,
  ...more,
});
const addresses = (text: string, rules: readonly RegistryRule[]): readonly string[] =>
  endpointsOf(parseReference(text), rules).read.map(
    (e) => `${e.mirror ? 'mirror ' : ''}${e.insecure ? 'insecure ' : ''}${e.host}/${e.repository}`,
  );
const code = (text: string, rules: readonly RegistryRule[]): unknown => {
  try {
    return addresses(text, rules);
  } catch (error) {
    return codeFrom(error);
  }
};
const BODY = JSON.stringify({ schemaVersion: 2, config: {}, layers: [] });
const manifest: Reply = {
  headers: { 'content-type': 'application/vnd.oci.image.manifest.v1+json' },
  body: BODY,
};

describe('rules', () => {
  const HUB = [
    ['alpine', [], ['registry-1.docker.io/library/alpine']],
    ['docker.io/alpine', [], ['registry-1.docker.io/library/alpine']],
    ['index.docker.io/acme/app', [], ['registry-1.docker.io/acme/app']],
    ['x', [rule('a.test', { location: 'docker.io' })], ['registry-1.docker.io/library/x']],
  ] as const;
  it.each(HUB)('R49 %s is asked for at Docker Hub’s own host', (text, rules, expected) => {
    expect(addresses(text, rules)).toEqual(expected);
  });

  const LONGEST = [
    ['ghcr.io/a/b', [], ['ghcr.io/a/b']],
    [
      'ghcr.io/a/b',
      [rule('ghcr.io', { location: 'z.test' }), rule('ghcr.io/a', { location: 'x.test/y' })],
      ['x.test/y/b'],
    ],
    ['ghcr.io/a', [rule('ghcr.io/a', { location: 'x.test/y' })], ['x.test/y']],
    ['ghcr.io/ab/c', [rule('ghcr.io/a', { location: 'x.test' })], ['ghcr.io/ab/c']],
    ['ghcr.io.evil.test/a', [rule('ghcr.io', { location: 'x.test' })], ['ghcr.io.evil.test/a']],
    ['GHCR.io/a', [rule('Ghcr.IO', { location: 'x.test' })], ['x.test/a']],
    ['a.corp.test/x', [rule('*.corp.test', { location: 'y.test/corp' })], ['y.test/corp/x']],
    ['a.b.corp.test:443/x', [rule('*.corp.test', { location: 'y.test' })], ['y.test/x']],
    ['corp.test/x', [rule('*.corp.test', { location: 'y.test' })], ['corp.test/x']],
    ['evilcorp.test/x', [rule('*.corp.test', { location: 'y.test' })], ['evilcorp.test/x']],
    [
      'a.corp.test/x',
      [rule('*.corp.test', { location: 'y.test' }), rule('a.corp.test', { location: 'z.test' })],
      ['z.test/x'],
    ],
    [`ghcr.io/a:1@${digestOf('')}`, [rule('ghcr.io/a:1', { location: 'y.test/b' })], ['y.test/b']],
    ['ghcr.io/a:10', [rule('ghcr.io/a:1', { location: 'y.test/b' })], ['ghcr.io/a']],
    ['localhost:5000/x', [rule('localhost', { insecure: true })], ['insecure localhost:5000/x']],
    ['localhost:50001/x', [rule('localhost:5000', { insecure: true })], ['localhost:50001/x']],
    ['ghcr.io/a/b:1', [rule('ghcr.io/a/b:1', { insecure: true })], ['insecure ghcr.io/a/b']],
    [
      'ghcr.io/a/b',
      [rule('ghcr.io', { location: 'first.test' }), rule('ghcr.io', { location: 'second.test' })],
      ['first.test/a/b'],
    ],
  ] as const;
  it.each(LONGEST)('R50 of %s are the longest prefix’s: %j', (text, rules, expected) => {
    expect(addresses(text, rules)).toEqual(expected);
  });

  it('R51 the address changes, the path and the scope with it, and not the name', async () => {
    await using registry = await scriptedRegistry({
      'GET /v2/hub/library/app/manifests/1': ({ headers }) =>
        headers.authorization === 'Bearer t'
          ? { status: 404 }
          : {
              status: 401,
              headers: { 'www-authenticate': `Bearer realm="http://${headers.host}/token"` },
            },
      'GET /token': { body: '{"token":"t"}' },
    });
    await using asked = asking({ rules: [rule('docker.io', { location: `${registry.host}/hub/` })] });
    await expect(asked.client.getManifest(parseReference('app:1'), asked.options)).rejects.toMatchObject({
      code: 'REGISTRY_NOT_FOUND',
      message: expect.stringMatching(/^docker\.io\/library\/app:1: /) as string,
    });
    expect(registry.asked.find(({ path }) => path === '/token')?.query.get('scope')).toBe(
      'repository:hub/library/app:pull',
    );
    for (const location of ['https://x.test', 'x test', '', 'x.test/../y', 'user@x.test'])
      expect(code('ghcr.io/a', [rule('ghcr.io', { location })])).toBe('REGISTRY_ADDRESS_REFUSED');
  });

  it('R52 mirrors are asked in their order, what they lack or fail at the registry, whose word is final', async () => {
    await using broken = await scriptedRegistry({ '*': { status: 403 } });
    await using empty = await scriptedRegistry({});
    await using registry = await scriptedRegistry({
      'GET /v2/team/app/manifests/1': manifest,
      'PUT /v2/team/app/manifests/1': { status: 201 },
    });
    const mirrors = [broken, empty].map(({ host }) => ({ location: `${host}/copy`, insecure: false }));
    await using asked = asking({ rules: [rule(registry.host, { mirrors })] });
    const { descriptor } = await asked.client.getManifest(asked.at(registry.host), asked.options);
    expect(empty.lines()).toEqual(['GET /v2/copy/team/app/manifests/1']);
    expect(
      asked.events.flatMap((event) => (event.type === 'registry.warning' ? [event.registry] : [])),
    ).toEqual([broken.host, empty.host]);
    const before = [broken.asked.length, empty.asked.length];
    const bytes = Buffer.from(BODY);
    await asked.client.putManifest(asked.at(registry.host), { descriptor, bytes }, asked.options);
    expect([broken.asked.length, empty.asked.length]).toEqual(before);
    expect(
      await codeOf(asked.client.getManifest(asked.at(registry.host, 'team/app:none'), asked.options)),
    ).toBe('REGISTRY_NOT_FOUND');
    expect(empty.asked.length).toBeGreaterThan(before[1] as number);
  });

  it('R53 a mirror may be for digests alone, or for tags', () => {
    const mirrors = (['all', 'digest-only', 'tag-only'] as const).map((pullFromMirror) => ({
      location: `${pullFromMirror}.test`,
      insecure: false,
      pullFromMirror,
    }));
    const rules = [rule('ghcr.io', { mirrors })];
    expect(addresses('ghcr.io/a:1', rules)).toEqual([
      'mirror all.test/a',
      'mirror tag-only.test/a',
      'ghcr.io/a',
    ]);
    for (const text of [`ghcr.io/a@${digestOf('')}`, `ghcr.io/a:1@${digestOf('')}`])
      expect(addresses(text, rules)).toEqual(['mirror all.test/a', 'mirror digest-only.test/a', 'ghcr.io/a']);
  });

  it('R54 `insecure` holds for the address that it was said of', async () => {
    const mirrors = [
      { location: 'm.test/hub', insecure: true },
      { location: 'n.test', insecure: false },
    ];
    expect(addresses('alpine:3', [rule('docker.io', { mirrors })])).toEqual([
      'mirror insecure m.test/hub/library/alpine',
      'mirror n.test/library/alpine',
      'registry-1.docker.io/library/alpine',
    ]);
    expect(
      addresses('ghcr.io/a', [rule('ghcr.io', { location: 'x.test', insecure: true, mirrors })]),
    ).toEqual(['mirror insecure m.test/hub/a', 'mirror n.test/a', 'insecure x.test/a']);
    await using untrusted = await scriptedRegistry(
      { 'GET /v2/team/app/manifests/1': manifest },
      { tls: true },
    );
    const get = async (insecure: boolean): Promise<string> => {
      await using asked = asking({ rules: [rule(untrusted.host, { insecure })] });
      return await codeOf(asked.client.getManifest(asked.at(untrusted.host), asked.options));
    };
    expect([await get(false), await get(true)]).toEqual(['REGISTRY_TLS', 'no error']);
  });

  it('R55 what is blocked is not asked, in any spelling; a longer rule may lift it, but not a machine’s', () => {
    const machine = rule('bad.test', { blocked: true, machine: true });
    const hub = rule('docker.io', { blocked: true, machine: true });
    for (const [text, rules] of [
      ['GHCR.IO/a', [rule('ghcr.io', { blocked: true })]],
      ['registry-1.docker.io/library/a', [rule('docker.io', { blocked: true })]],
      ['bad.test/mine', [rule('bad.test/mine'), machine]],
      ['bad.test/mine', [rule('bad.test'), machine]],
      ['good.test/a', [rule('good.test', { location: 'bad.test' }), machine]],
      ['good.test/a', [rule('good.test', { mirrors: [{ location: 'bad.test', insecure: false }] }), machine]],
      ['good.test/a', [rule('good.test', { location: 'registry-1.docker.io' }), hub]],
      ['bad.test/a', [rule('*.test', { location: 'x.example' }), rule('bad.test/a'), machine]],
    ] as const)
      expect([text, code(text, rules)]).toEqual([text, 'REGISTRY_BLOCKED']);
    expect(code('ghcr.io/a/b', [rule('ghcr.io', { blocked: true }), rule('ghcr.io/a')])).toEqual([
      'ghcr.io/a/b',
    ]);
    // The administrator may make exceptions, and lead to where nobody goes directly.
    expect(code('bad.test/ok/a', [machine, rule('bad.test/ok', { machine: true })])).toEqual([
      'bad.test/ok/a',
    ]);
    expect(
      code('good.test/a', [rule('good.test', { location: 'bad.test', machine: true }), machine]),
    ).toEqual(['bad.test/a']);
  });
});

describe('registries.conf', () => {
  let root: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'registries-'));
  });
  afterEach(() => rm(root, { recursive: true }));

  async function rulesOf(
    files: Readonly<Record<string, string>>,
    env: Readonly<Record<string, string>> = {},
  ): Promise<readonly RegistryRule[]> {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(join(root, path, '..'), { recursive: true });
      await writeFile(join(root, path), text);
    }
    const { settings } = await loadSettings({
      env: { HOME: join(root, 'home'), ...env },
      uid: process.getuid?.() ?? 0,
      machineFile: join(root, 'etc/skycap/config.yaml'),
      containersFolder: join(root, 'etc/containers'),
    });
    return settings.registries;
  }
  const registry = (prefix: string, location: string): string =>
    `[[registry]]\nprefix = "${prefix}"\nlocation = "${location}"\n`;

  it('R56 means the same here: mirrors, rewrites, insecure and blocked, drop-in files, and nothing of short names', async () => {
    const rules = await rulesOf({
      'etc/containers/registries.conf': `
unqualified-search-registries = ["evil.test"]
short-name-mode = "disabled"
credential-helpers = ["secretservice"]
[aliases]
"alpine" = "evil.test/alpine"
[[registry]]
location = "bad.test"
blocked = true
[[registry]]
prefix = "docker.io"
location = "hub.test/cache/"
insecure = true
mirror-by-digest-only = true
[[registry.mirror]]
location = "m.test"
[[registry.mirror]]
location = "n.test/x"
insecure = true
[[registry]]
prefix = "*.corp.test"
location = ""
insecure = true
[[registry]]
prefix = "tagged.test/a:1"
location = "one.test/a"
[[registry]]
prefix = "replaced.test"
location = "main.test"
`,
      'etc/containers/registries.conf.d/10-a.conf': registry('replaced.test', 'ten.test'),
      'etc/containers/registries.conf.d/20-b.conf': registry('replaced.test', 'twenty.test'),
      'etc/containers/registries.conf.d/30-c.txt': registry('replaced.test', 'no-conf.test'),
    });
    const digest = digestOf('');
    expect(addresses(`alpine@${digest}`, rules)).toEqual([
      'mirror m.test/library/alpine',
      'mirror insecure n.test/x/library/alpine',
      'insecure hub.test/cache/library/alpine',
    ]);
    expect(addresses('alpine:3', rules)).toEqual(['insecure hub.test/cache/library/alpine']);
    expect(code('bad.test/x', rules)).toBe('REGISTRY_BLOCKED');
    expect(addresses('a.corp.test/x', rules)).toEqual(['insecure a.corp.test/x']);
    expect([addresses('tagged.test/a:1', rules), addresses('tagged.test/a:2', rules)]).toEqual([
      ['one.test/a'],
      ['tagged.test/a'],
    ]);
    expect(addresses('replaced.test/x', rules)).toEqual(['twenty.test/x']);
  });

  it('R56 stands behind this program’s own files, the user’s in place of the machine’s, a named one before both', async () => {
    const files = {
      'etc/containers/registries.conf': `${registry('a.test', 'machine.test')}${registry('b.test', 'machine.test')}`,
      'etc/containers/registries.conf.d/more.conf': registry('d.test', 'machine-drop-in.test'),
      'etc/skycap/config.yaml': 'registries: [{prefix: b.test, location: skycap.test}]',
    };
    const both = await rulesOf(files);
    expect([addresses('a.test/x', both), addresses('b.test/x', both)]).toEqual([
      ['machine.test/x'],
      ['skycap.test/x'],
    ]);
    const dropIn = await rulesOf({
      'home/.config/containers/registries.conf.d/mine.conf': registry('a.test', 'drop-in.test'),
    });
    expect(['a', 'b', 'd'].map((name) => addresses(`${name}.test/x`, dropIn)[0])).toEqual([
      'drop-in.test/x',
      'skycap.test/x',
      'machine-drop-in.test/x',
    ]);
    await writeFile(join(root, 'named.conf'), registry('c.test', 'named.test'));
    const named = await rulesOf({}, { CONTAINERS_REGISTRIES_CONF: join(root, 'named.conf') });
    expect([addresses('c.test/x', named), addresses('a.test/x', named)]).toEqual([
      ['named.test/x'],
      ['drop-in.test/x'],
    ]);
    await rm(join(root, 'home'), { recursive: true });
    const mine = await rulesOf({
      'home/.config/containers/registries.conf': registry('c.test', 'user.test'),
    });
    expect(['a', 'b', 'c', 'd'].map((name) => addresses(`${name}.test/x`, mine)[0])).toEqual([
      'a.test/x',
      'skycap.test/x',
      'user.test/x',
      'd.test/x',
    ]);
  });

  const WRONG = [
    ['[[registry]\n', 'line 1'],
    ['[[registry]]\nprefix = 7', '`prefix` must be a string'],
    ['[[registry]]\nblocked = true', 'needs `prefix` or `location`'],
    ['[[registry]]\nprefix = "a.test"\nblocked = "yes"', '`blocked` must be true or false'],
    ['[[registry]]\nprefix = "https://a.test"', 'no prefix'],
    ['[[registry]]\nprefix = "*.a.test/b"', 'no prefix'],
    ['[[registry]]\nprefix = "a.test"\nlocation = "b.test/../c"', 'no location'],
    ['[[registry]]\nprefix = "a.test"\n[[registry.mirror]]\ninsecure = true', 'needs `location`'],
    [
      '[[registry]]\nprefix = "a.test"\n[[registry.mirror]]\nlocation = "m.test"\npull-from-mirror = "no"',
      'one of all',
    ],
    ['registry = "a.test"', 'must be an array of tables'],
  ] as const;
  it.each(WRONG)('R56 is refused whole where it is wrong: %j', async (text, problem) => {
    const failure = rulesOf({ 'etc/containers/registries.conf': text });
    const place = { file: join(root, 'etc/containers/registries.conf') };
    await expect(failure).rejects.toMatchObject({ code: 'SETTINGS_INVALID', place });
    if (problem === 'line 1') await expect(failure).rejects.toMatchObject({ place: { line: 1 } });
    else await expect(failure).rejects.toThrow(problem);
  });

  it('R56 in its older format blocks and loosens too', async () => {
    const rules = await rulesOf({
      'etc/containers/registries.conf':
        '[registries.search]\nregistries = ["s.test"]\n[registries.insecure]\nregistries = ["i.test"]\n[registries.block]\nregistries = ["b.test"]\n',
    });
    expect(addresses('i.test/x', rules)).toEqual(['insecure i.test/x']);
    expect(code('b.test/x', rules)).toBe('REGISTRY_BLOCKED');
  });
});
