import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Descriptor, Digest } from '../../src/oci/index.ts';
import { tarOf } from '../../src/testkit/images/index.ts';
import { scriptedRegistry } from '../../src/testkit/registry/index.ts';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

describe.each(enginesToTest('oci-runtime'))('images as bytes and text on %s', (engine) => {
  let world: World;
  let tools: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    tools = await world.image('acme/tools:1');
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  function put(name: string, content: string | Uint8Array): string {
    const path = join(world.directory, name);
    writeFileSync(path, content);
    return path;
  }

  async function locked(yaml: string): Promise<string> {
    const cwd = world.bundle({ 'porter.yaml': yaml });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    return cwd;
  }

  const bundleOf = (name: string, image: string, step: string): string => `name: ${name}
version: 1.0.0
invocationImages:
  - {name: tools, image: "${image}"}
install:
  - {id: only, description: Only, invoke: {name: tools, action: ${step}}}
`;

  const canaries = ['/skycap-canary', '/tmp/skycap-canary', '/etc/skycap-canary'];
  it.each([
    ['dots', [{ path: '../../../../../../../../../../../../tmp/skycap-canary', content: 'evil' }]],
    ['an absolute path', [{ path: '/tmp/skycap-canary', content: 'evil' }]],
    [
      'a link to a folder',
      [
        { path: 'out', type: 'symlink', linkPath: '/tmp' },
        { path: 'out/skycap-canary', content: 'evil' },
      ],
    ],
    [
      'a link with dots',
      [
        { path: 'out', type: 'symlink', linkPath: '../../../../../../../../../../tmp' },
        { path: 'out/skycap-canary', content: 'evil' },
      ],
    ],
    [
      'a hard link outside',
      [{ path: 'passwd', type: 'link', linkPath: '../../../../../../../../etc/passwd' }],
    ],
    [
      'a link replaced by a file',
      [
        { path: 'file', type: 'symlink', linkPath: '/tmp/skycap-canary' },
        { path: 'file', content: 'evil' },
      ],
    ],
  ] as const)('S30 writes nothing outside by %s', async (name, files) => {
    const passwd = readFileSync('/etc/passwd');
    const tar = put('escape.tar', tarOf(files.map((file) => ({ ...file }))));
    const imported = await world.skycap([
      'image',
      'import',
      tar,
      'localhost/escape:1',
      '--entrypoint',
      '/bin/true',
    ]);
    // The same archive as a layer of an image that a registry offers, unpacked when a step is to run.
    const image = await world.image(`acme/escape-${name.replaceAll(' ', '-')}:1`);
    const served = await withRawLayer(world, image, tarOf(files.map((file) => ({ ...file }))));
    const cwd = await locked(bundleOf('escape', served, '{command: [sh, -c, "cat /passwd; true"]}'));
    const ran = await world.skycap(['install', '--force'], { cwd });

    for (const { code, stderr } of [imported, ran]) {
      if (code !== 0)
        expect([code, stderr]).toEqual([25, expect.stringMatching(/OCI_LAYER_(UNSAFE|INVALID)/)]);
    }
    expect(ran.stderr).not.toContain('only | root:x:0:0:root:/root:/bin/bash');
    for (const canary of canaries) expect(existsSync(canary)).toBe(false);
    expect(readFileSync('/etc/passwd')).toEqual(passwd);
  });

  it('S31 drops attributes that drive overlayfs or security, and refuses device 0:0', async () => {
    const attributes = {
      'trusted.overlay.opaque': 'y',
      'user.overlay.opaque': 'y',
      'user.overlay.redirect': '/etc',
      'security.evil': 'x',
      'user.kept': 'kept',
    };
    const xattrs = new Map(Object.entries(attributes).map(([key, value]) => [key, Buffer.from(value)]));
    xattrs.set('security.capability', Buffer.from('0100000200040000000000000000000000000000', 'hex'));
    const image = await world.image('acme/attributes:1');
    const layer = tarOf([
      { path: 'odd/', type: 'directory', xattrs },
      { path: 'odd/file', content: 'x', mode: 0o755, xattrs },
    ]);
    const served = await withRawLayer(world, image, layer);
    const cwd = await locked(bundleOf('attributes', served, '{command: [cat, /odd/file]}'));
    expectCode(await world.skycap(['install', '--force'], { cwd }), 0);
    const script = `cd "$1"; i=0; for image in $(find . -name image.erofs); do
      mkdir -p "$2/$i"; mount -t erofs -o ro,loop "$image" "$2/$i"; i=$((i + 1)); done
      getfattr -R -h -d -m - --absolute-names "$2"`;
    const folders = [world.env.XDG_DATA_HOME as string, join(world.directory, 'mounted')];
    const shown = execFileSync('unshare', ['--mount', 'sh', '-euc', script, 'sh', ...folders], {
      encoding: 'utf8',
      maxBuffer: 1 << 28,
    });
    const odd = shown.split('\n\n').find((part) => /\/odd\/file\n/.test(part)) ?? '';
    expect(odd).toContain('user.kept="kept"');
    expect(odd).toContain('security.capability');
    expect(odd).not.toMatch(/trusted\.overlay|user\.overlay|security\.evil/);

    const device = tarOf([{ path: 'hidden', type: 'char', devMajor: 0, devMinor: 0 }]);
    const whited = await withRawLayer(world, await world.image('acme/device:1', { busybox: true }), device);
    const other = await locked(bundleOf('device', whited, '{command: [ls]}'));
    const refused = expectCode(await world.skycap(['install', '--force'], { cwd: other }), 25);
    expect(refused.stderr).toContain('OCI_LAYER_UNSAFE');
  });

  it('S32 speaks plain http only to loopback, or where the configuration says so', async () => {
    const address = Object.values(networkInterfaces())
      .flat()
      .find((one) => one?.family === 'IPv4' && !one.internal)?.address;
    if (address === undefined) throw new Error('this test needs an address that is not loopback');
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(request.url ?? '');
      const target = `http://${world.registry}${request.url}`;
      fetch(target, {
        method: request.method ?? 'GET',
        headers: { accept: request.headers.accept ?? '*/*' },
      }).then(
        async (answer) => {
          const headers = Object.fromEntries(answer.headers);
          response.writeHead(answer.status, headers).end(Buffer.from(await answer.arrayBuffer()));
        },
        () => response.destroy(),
      );
    });
    await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve));
    const { port } = server.address() as AddressInfo;
    const own = join(world.env.XDG_CONFIG_HOME as string, 'skycap/config.yaml');
    mkdirSync(dirname(own), { recursive: true });
    try {
      const refused = await world.skycap(['image', 'pull', `${address}:${port}/acme/tools:1`]);
      expectCode(refused, 26);
      expect(refused.stderr).toMatch(/hint: .*(insecure|http)/s);
      expect(asked).toEqual([]);
      // A name that says loopback is not enough: the address that is connected counts.
      expectCode(await world.skycap(['image', 'pull', `127.0.0.1:${port}/acme/tools:1`]), 0);
      writeFileSync(own, `registries: [{prefix: "${address}:${port}", insecure: true}]\n`);
      expectCode(await world.skycap(['image', 'pull', `${address}:${port}/acme/tools:1`]), 0);
    } finally {
      writeFileSync(own, '');
      server.closeAllConnections();
      server.close();
    }
  });

  it('S33 sends credentials to no other origin, nor to a token realm of another host over plain http', async () => {
    const secret = Buffer.from('user:pass-of-user').toString('base64');
    await using other = await scriptedRegistry({ '*': { status: 200, body: '{"token":"x"}' } });
    let challenge = 'Basic realm="r"';
    await using registry = await scriptedRegistry({
      '*': (asked) => {
        if (asked.headers.authorization === undefined)
          return { status: 401, headers: { 'www-authenticate': challenge } };
        if (asked.path === '/v2/') return {};
        return { status: 307, headers: { location: `http://${other.host}${asked.path}` } };
      },
    });
    const login = await world.skycap(['login', registry.host, '-u', 'user', '--password-stdin'], {
      input: 'pass-of-user',
    });
    expectCode(login, 0);
    expect(registry.asked.some(({ headers }) => headers.authorization === `Basic ${secret}`)).toBe(true);
    expect((await world.skycap(['image', 'pull', `${registry.host}/acme/x:1`])).code).toBeGreaterThanOrEqual(
      20,
    );
    expect(other.asked.length).toBeGreaterThan(0);

    challenge = `Bearer realm="http://registry-tokens.example:${other.host.split(':')[1]}/token",service="x"`;
    const pulled = await world.skycap(['image', 'pull', `${registry.host}/acme/y:1`]);
    expectCode(pulled, 27);
    expect(pulled.stderr).toMatch(/REGISTRY_AUTH_INVALID.*registry-tokens\.example/s);
    for (const { headers } of other.asked) expect(headers.authorization).toBeUndefined();
    expect((await world.skycap(['logout', registry.host])).code).toBe(0);
  });

  it('S34 serves read-only on loopback and checks Host and Origin', async () => {
    expectCode(
      await world.skycap([
        'image',
        'import',
        put('one.tar', tarOf([{ path: 'a', content: 'a' }])),
        'localhost/one:1',
      ]),
      0,
    );
    const serving = world.start(['registry', 'serve', '--port', '0', '-o', 'json']);
    let printed = '';
    serving.process.stdout?.on('data', (text: string) => {
      printed += text;
    });
    await serving.said(/127\.0\.0\.1:\d+/);
    const host = /127\.0\.0\.1:\d+/.exec(printed)?.[0] as string;
    try {
      const ask = (method: string, path: string, headers: Record<string, string> = {}): number => {
        const flags = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
        const ran = spawnSync('curl', [
          '-s',
          '-o',
          '/dev/null',
          '-w',
          '%{http_code}',
          '-X',
          method,
          ...flags,
          `http://${host}${path}`,
        ]);
        return Number(ran.stdout.toString());
      };
      expect(ask('GET', '/v2/one/manifests/1', { accept: '*/*' })).toBe(200);
      for (const [method, path] of [
        ['POST', '/v2/one/blobs/uploads/'],
        ['PUT', '/v2/one/manifests/2'],
        ['DELETE', '/v2/one/manifests/1'],
      ] as const)
        expect([method, ask(method, path)]).toEqual([method, 405]);
      const foreign = [
        { Host: 'rebound.example' },
        { Origin: 'https://evil.example' },
        { 'Sec-Fetch-Site': 'cross-site' },
      ] as const;
      expect(foreign.map((headers) => [headers, ask('GET', '/v2/', headers)])).toEqual(
        foreign.map((headers) => [headers, 403]),
      );
      const outside = Object.values(networkInterfaces())
        .flat()
        .find((one) => one?.family === 'IPv4' && !one.internal);
      if (outside !== undefined)
        expect(await reaches(outside.address, Number(host.split(':')[1]))).toBe(false);
    } finally {
      serving.process.kill('SIGTERM');
      await serving.ended;
    }
    const wide = await world.skycap(['registry', 'serve', '--port', '0', '--address', '0.0.0.0']);
    expectCode(wide, 28);
  });

  it('S40 lets text of steps and registries drive neither terminal nor CI', async () => {
    const evil = String.raw`\033]0;title\007\033[2J\302\233 31m\342\200\256gnp.exe`;
    const cwd = await locked(
      bundleOf(
        'text',
        tools,
        `{command: [sh, -c, "printf '%b\\\\n' '${evil.replaceAll('\\', '\\\\')}'; echo '::set-output name=a::b'; echo '##vso[task.setvariable variable=x]y' >&2"]}`,
      ),
    );
    const ran = await world.skycap(['install', '--force'], {
      cwd,
      env: { GITHUB_ACTIONS: 'true', CI: 'true' },
    });
    expectCode(ran, 0);
    expect(ran.stderr).toMatch(/only \| .*title/);
    const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;
    expect(ran.stderr).not.toMatch(controls);
    expect(ran.stderr).toContain('\\x1b]0;title\\x07');
    expect(ran.stderr).not.toMatch(/^::|\| ::set-output|##vso\[/m);
    expect(ran.stderr).toMatch(/set-output name=a/);
    const logs = expectCode(
      await world.skycap(['run', 'logs', '-i', 'text'], { cwd, env: { CI: 'true' } }),
      0,
    );
    expect(logs.stdout).not.toMatch(/##vso\[/);

    const body = JSON.stringify({
      errors: [{ code: 'DENIED', message: '\u001b[2J\u009b31m\u202eevil\n::error::x' }],
    });
    await using registry = await scriptedRegistry({ '*': { status: 403, body } });
    const refused = await world.skycap(['image', 'pull', `${registry.host}/acme/x:1`], {
      env: { CI: 'true' },
    });
    expect(refused.code).toBeGreaterThanOrEqual(20);
    expect(refused.stderr).toContain('evil');
    expect(refused.stderr).not.toMatch(controls);
    expect(refused.stderr).not.toMatch(/^::error/m);
  });

  it('S41 runs patterns of bundles in linear time', async () => {
    const cwd = await locked(`name: patterns
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"}
parameters:
  - {name: word, type: string, pattern: "^(a+)+$", default: aaa}
install:
  - id: only
    description: Only
    invoke:
      name: tools
      action: {command: [sh, -c, "printf '%060d!' 0 | tr 0 a; printf '%060d!' 0 | tr 0 a >&2; exit 1"]}
      ignoreError: {output: {regex: ["(a+)+$", "^(a|a)*!"]}}
      outputs: [{name: found, regex: "^((a+)+)$", sensitive: false}]
`);
    const started = performance.now();
    expect((await world.skycap(['install', '--force'], { cwd })).code).not.toBeNull();
    const bad = await world.skycap(['install', 'other', '--param', `word=${'a'.repeat(60)}!`], { cwd });
    expectCode(bad, 2);
    expect(bad.stderr).toContain('pattern');
    // A matcher that tries every way would not come to an end at all.
    expect(performance.now() - started).toBeLessThan(120_000);
  });
});

/** The image with one more layer of exactly these bytes, which no sound tool would make. */
async function withRawLayer(world: World, reference: string, layer: Uint8Array): Promise<string> {
  const name = reference.slice(world.registry.length + 1);
  const { images } = world;
  const add = async (bytes: Uint8Array, mediaType: string): Promise<Descriptor> => {
    const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}` as Digest;
    const blob = { mediaType, digest, size: bytes.length };
    const open = async () =>
      (async function* () {
        yield bytes;
      })();
    await images.ingest(blob, open, { signal: new AbortController().signal, emit: () => {} });
    return blob;
  };
  const descriptor = (await images.resolve(`localhost/${name}`)) as Descriptor;
  const json = async (digest: Digest) => JSON.parse(Buffer.from(await images.readSmall(digest)).toString());
  let manifest = await json(descriptor.digest);
  if (manifest.manifests !== undefined) manifest = await json(manifest.manifests[0].digest);
  const config = await json(manifest.config.digest);
  const added = await add(layer, 'application/vnd.oci.image.layer.v1.tar');
  config.rootfs.diff_ids.push(added.digest);
  delete config.history;
  const bytesOf = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
  manifest.config = await add(bytesOf(config), manifest.config.mediaType);
  manifest.layers.push(added);
  const tagged = await add(bytesOf(manifest), descriptor.mediaType);
  await images.tag(`localhost/${name}`, tagged);
  return reference;
}

function reaches(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, address);
    socket.on('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}
