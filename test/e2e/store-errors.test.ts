import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Descriptor, LayerSource } from '../../src/oci/index.ts';
import { digestOf } from '../../src/oci/names/index.ts';
import { tryLock } from '../../src/oci/store/lock.ts';
import { inPieces, tarOf } from '../../src/testkit/images/index.ts';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type Ran, type Running, type World } from '../support/world.ts';

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';

let world: World;
let work: string;
let busy: { readonly running: Running; readonly release: () => void };

/** One message, with code, place and hint, and this exit code. */
function expectError(ran: Ran, code: string, exit: number): string {
  expectCode(ran, exit);
  expect(ran.stderr.match(/^error \[/gm)).toHaveLength(1);
  expect(ran.stderr).toContain(`error [${code}] `);
  expect(ran.stderr).toContain('\n  hint: ');
  return ran.stderr;
}

function file(name: string, content: string | Uint8Array): string {
  writeFileSync(join(work, name), content);
  return join(work, name);
}

const blobPath = (directory: string, digest: string): string =>
  join(directory, 'blobs', ...digest.split(':'));
const storeOf = (name: string): string => join(work, name);
const inStore = (name: string) => ({ env: { SKYCAP_STORE_DIRECTORY: storeOf(name) } });

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}

async function imported(
  store: string,
): Promise<{ readonly digest: string; readonly config: string; readonly layer: string }> {
  const ran = await world.skycap(
    ['image', 'import', join(work, 'good.tar'), 'localhost/a:1', '-o', 'json'],
    inStore(store),
  );
  const { digest } = expectCode(ran, 0).json<{ digest: string }>();
  const manifest = JSON.parse(readFileSync(blobPath(storeOf(store), digest), 'utf8'));
  return { digest, config: manifest.config.digest, layer: manifest.layers[0].digest };
}

/** Puts any bytes under any descriptor into the registry's store. */
async function put(bytes: Buffer, mediaType: string): Promise<Descriptor> {
  const descriptor = { mediaType, digest: digestOf(bytes), size: bytes.length };
  const transfer = { signal: new AbortController().signal, emit: () => {} };
  await world.images.ingest(descriptor, async (offset) => inPieces(bytes.subarray(offset)), transfer);
  return descriptor;
}

beforeAll(async () => {
  world = await makeWorld('oci-runtime');
  work = mkdtempSync(join(world.directory, 'work-'));
  file('good.tar', tarOf([{ path: 'f', content: 'hello' }]));
  // Waits as long as anyone waits for a lock, while the other tests run.
  expectCode(await world.skycap(['image', 'list'], inStore('busy')), 0);
  const lock = tryLock(join(storeOf('busy'), 'locks', 'store'));
  if (lock === undefined) throw new Error('the lock is not free');
  busy = {
    running: world.start(['image', 'import', join(work, 'good.tar'), 'localhost/a:1'], inStore('busy')),
    release: () => lock[Symbol.dispose](),
  };
});
afterAll(() => world[Symbol.asyncDispose]());

describe('a folder that cannot be a store ends at once in one message', () => {
  const places: Readonly<Record<string, () => string>> = {
    'a file': () => file('file', 'x'),
    'below a file': () => join(file('file', 'x'), 'below'),
    'a FIFO': () => {
      execFileSync('mkfifo', [join(work, 'fifo')]);
      return join(work, 'fifo');
    },
    'a device': () => '/dev/null',
    'in /proc': () => '/proc/none',
    'below a process': () => '/proc/self/none/a',
    'in /sys': () => '/sys/none',
    'a folder of somebody else': () => '/etc',
    'a layout of another version': () => {
      mkdirSync(storeOf('future'));
      file('future/oci-layout', '{"imageLayoutVersion":"2.0.0"}');
      return storeOf('future');
    },
    'a store of another version': () => {
      mkdirSync(storeOf('newer'));
      file('newer/oci-layout', '{"imageLayoutVersion":"1.0.0"}');
      file('newer/skycap-store.json', '{"version":99}');
      return storeOf('newer');
    },
    'a FIFO for a layout': () => {
      mkdirSync(storeOf('piped'));
      execFileSync('mkfifo', [join(storeOf('piped'), 'oci-layout')]);
      return storeOf('piped');
    },
  };

  it.each(Object.entries(places))('%s', async (_what, make) => {
    const directory = make();
    const ran = await world.skycap(['image', 'list'], {
      env: { SKYCAP_STORE_DIRECTORY: directory },
    });
    const said = expectError(ran, 'OCI_STORE_INVALID', 24);
    expect(said).toContain(directory);
    expect(said).toMatch(/\n {2}at \/\S+/);
  });

  it('XDG_DATA_HOME in /proc', async () => {
    const options = { env: { XDG_DATA_HOME: '/proc/none' } };
    const images = await world.skycap(['image', 'list'], options);
    expect(expectError(images, 'OCI_STORE_INVALID', 24)).toContain('/proc/none/skycap/store');
    const installations = await world.skycap(['installation', 'list'], options);
    expect(expectError(installations, 'STATE_PERMISSIONS', 60)).toContain('/proc/none/skycap/state');
  });
});

describe('image import', () => {
  it.each<[string, () => string, string, number]>([
    ['a device', () => '/dev/null', 'FILE_UNREADABLE', 2],
    ['memory of a process', () => '/proc/self/mem', 'FILE_UNREADABLE', 2],
    ['nothing', () => join(work, 'nothing'), 'FILE_UNREADABLE', 2],
    ['an empty file', () => file('empty', ''), 'FILE_UNREADABLE', 2],
    ['a text', () => file('text', 'no archive'), 'OCI_LAYER_INVALID', 25],
    ['noise', () => file('noise', Buffer.alloc(4096, 0x5a)), 'OCI_LAYER_INVALID', 25],
    [
      'half an archive',
      () => file('half', readFileSync(join(work, 'good.tar')).subarray(0, 514)),
      'OCI_LAYER_INVALID',
      25,
    ],
  ])('of %s says what it is and what to give', async (_what, make, code, exit) => {
    const path = make();
    const said = expectError(
      await world.skycap(['image', 'import', path, 'localhost/x:1'], inStore('imports')),
      code,
      exit,
    );
    expect(said).toContain(`\n  at ${path}`);
    expect(said).not.toContain('ask its author');
  });

  it.each(['{bad', '[]', '{"inputs":1}'])('refuses the interface %s', async (text) => {
    const label = `dev.skycap.interface=${text}`;
    const args = ['image', 'import', join(work, 'good.tar'), 'localhost/x:1', '--label', label];
    expect(expectError(await world.skycap(args, inStore('imports')), 'IMAGE_INTERFACE', 14)).toContain(
      'localhost/x:1',
    );
  });

  it('refuses a name or platform that is none', async () => {
    const args = ['image', 'import', join(work, 'good.tar')];
    expectError(await world.skycap([...args, 'Not A Name'], inStore('imports')), 'REFERENCE_INVALID', 20);
    expectError(
      await world.skycap([...args, 'localhost/x:1', '--platform', '//'], inStore('imports')),
      'PLATFORM_INVALID',
      20,
    );
    const list = await world.skycap(['image', 'list', '-o', 'json'], inStore('imports'));
    expect(list.json<unknown[]>()).toEqual([]);
  });
});

describe('a damaged store', () => {
  it('says that the store is damaged, where, and that fsck mends it; then it is mended', async () => {
    const { config } = await imported('flipped');
    const path = blobPath(storeOf('flipped'), config);
    flip(path, 20);
    const said = expectError(
      await world.skycap(['image', 'inspect', 'localhost/a:1'], inStore('flipped')),
      'OCI_BLOB_CORRUPT',
      23,
    );
    expect(said).toContain('the store holds a damaged copy');
    expect(said).toContain(`\n  at ${path}`);
    expect(said).toContain('skycap image fsck --repair');
    expect(said).not.toContain('network');
    // Who knows what the damaged manifest led to?
    expectError(
      await world.skycap(['image', 'prune', '--older-than', '0s'], inStore('flipped')),
      'OCI_BLOB_CORRUPT',
      23,
    );

    const found = await world.skycap(['image', 'fsck', '-o', 'json'], inStore('flipped'));
    expect(expectCode(found, 24).json()).toMatchObject({
      findings: [{ kind: 'blob-digest', subject: config, repaired: false }],
    });
    expectCode(await world.skycap(['image', 'fsck', '--repair'], inStore('flipped')), 0);
    expect(
      expectCode(await world.skycap(['image', 'fsck', '-o', 'json'], inStore('flipped')), 0).json(),
    ).toEqual({ findings: [] });
    expectError(
      await world.skycap(['image', 'inspect', 'localhost/a:1'], inStore('flipped')),
      'OCI_IMAGE_MISSING',
      20,
    );
    await imported('flipped');
    expectCode(await world.skycap(['image', 'inspect', 'localhost/a:1'], inStore('flipped')), 0);
  });

  it('without one of its blobs says which, and pushes nothing', async () => {
    const { layer } = await imported('lost');
    rmSync(blobPath(storeOf('lost'), layer));
    const ran = await world.skycap(
      ['image', 'push', 'localhost/a:1', `${world.registry}/lost:1`],
      inStore('lost'),
    );
    expect(expectError(ran, 'OCI_BLOB_MISSING', 23)).toContain(layer);
    const mended = expectCode(
      await world.skycap(['image', 'fsck', '--repair', '-o', 'json'], inStore('lost')),
      0,
    );
    expect(mended.json<{ findings: { kind: string }[] }>().findings.map((finding) => finding.kind)).toEqual([
      'blob-missing',
      'index',
    ]);
  });

  it.each<[string, (index: string) => void]>([
    ['broken', (index) => writeFileSync(index, '{"manifests":')],
    [
      'a folder',
      (index) => {
        rmSync(index);
        mkdirSync(index);
      },
    ],
    ['gone', (index) => rmSync(index)],
  ])('whose index.json is %s says so, and is mended', async (what, damage) => {
    const name = `index-${what.length}`;
    await imported(name);
    damage(join(storeOf(name), 'index.json'));
    for (const args of [['list'], ['prune', '--older-than', '0s'], ['rm', 'localhost/a:1']]) {
      const said = expectError(
        await world.skycap(['image', ...args], inStore(name)),
        'OCI_STORE_INVALID',
        24,
      );
      expect(said).toContain('skycap image fsck --repair');
    }
    expectCode(await world.skycap(['image', 'fsck'], inStore(name)), 24);
    expectCode(await world.skycap(['image', 'fsck', '--repair'], inStore(name)), 0);
    expectCode(await world.skycap(['image', 'list'], inStore(name)), 0);
    await imported(name);
    expectCode(await world.skycap(['image', 'fsck'], inStore(name)), 0);
  });
});

describe('an image from a registry', () => {
  const pull = (reference: string, ...flags: string[]) =>
    world.skycap(['image', 'pull', reference, ...flags], inStore('pulls'));

  it('for another platform, or unknown, is told', async () => {
    const reference = await world.image('other:1', { platform: { os: 'linux', architecture: 's390x' } });
    expectError(await pull(reference, '--platform', 'linux/amd64'), 'OCI_PLATFORM_MISSING', 22);
    expectError(
      await world.skycap(['image', 'inspect', reference], inStore('pulls')),
      'OCI_IMAGE_MISSING',
      20,
    );
  });

  it('whose config is none is refused', async () => {
    const config = await put(Buffer.from('{"rootfs":'), 'application/vnd.oci.image.config.v1+json');
    const manifest = await put(
      Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST, config, layers: [] })),
      MANIFEST,
    );
    await world.images.tag('localhost/malformed:1', manifest);
    expectError(await pull(`${world.registry}/malformed:1`), 'OCI_MANIFEST_INVALID', 21);
  });

  it('whose transfer breaks off again and again, or brings other bytes, is given up', async () => {
    const bytes = Buffer.alloc(3000, 7);
    const config = await put(
      Buffer.from(
        '{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":["' +
          digestOf(bytes) +
          '"]}}',
      ),
      'application/vnd.oci.image.config.v1+json',
    );
    const layer = {
      mediaType: 'application/vnd.oci.image.layer.v1.tar',
      digest: digestOf(bytes),
      size: bytes.length,
    };
    const manifest = Buffer.from(
      JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST, config, layers: [layer] }),
    );
    let body = Buffer.alloc(0);
    await using server = await serve((path) => {
      if (path.includes('/manifests/')) return { type: MANIFEST, bytes: manifest };
      if (path.endsWith(config.digest))
        return {
          type: 'application/octet-stream',
          bytes: readFileSync(blobPath(world.images.directory, config.digest)),
        };
      return { type: 'application/octet-stream', bytes: body, length: layer.size };
    });
    const amd64 = ['--platform', 'linux/amd64'];
    expectError(await pull(`${server.host}/broken:1`, ...amd64), 'REGISTRY_TRUNCATED', 29);
    body = Buffer.alloc(3000, 8);
    const said = expectError(await pull(`${server.host}/broken:1`, ...amd64), 'OCI_BLOB_CORRUPT', 23);
    expect(said).toContain(layer.digest);
    expect(said).not.toContain('the store holds');
  });
});

describe.each(enginesToTest('oci-runtime'))('an image that cannot be unpacked, on %s', () => {
  const install = async (reference: string, env: Record<string, string> = {}): Promise<Ran> => {
    const cwd = world.bundle({
      'porter.yaml': `name: unpack
version: 1.0.0
invocationImages:
  - {name: tools, image: "${reference}", network: none}
install:
  - description: Work
    invoke: {name: tools, action: {command: [/bin/true]}}
`,
    });
    expectCode(await world.skycap(['lock'], { cwd, env }), 0);
    return await world.skycap(['install', `i${Math.random().toString(36).slice(2, 8)}`], { cwd, env });
  };
  const layered = (name: string, layer: LayerSource): Promise<string> =>
    world.image(name, { layers: [layer] });

  it('as it links out of itself', async () => {
    const reference = await layered('unsafe:1', {
      tar: inPieces(tarOf([{ path: 'h', type: 'link', linkPath: 'nowhere' }])),
    });
    expectError(await install(reference), 'OCI_LAYER_UNSAFE', 25);
  });

  it('as its names are too long', async () => {
    expectError(
      await install(await layered('limit:1', { files: [{ path: 'n'.repeat(300) }] })),
      'OCI_LAYER_LIMIT',
      25,
    );
  });

  it('as it unpacks to something else than it declares', async () => {
    const reference = await world.image('lying:1', { files: { f: 'x' } });
    const named = await world.images.resolve('localhost/lying:1');
    const manifest = JSON.parse(
      Buffer.from(await world.images.readSmall(named?.digest as Descriptor['digest'])).toString(),
    );
    const config = JSON.parse(Buffer.from(await world.images.readSmall(manifest.config.digest)).toString());
    config.rootfs.diff_ids = [digestOf('another layer')];
    manifest.config = await put(Buffer.from(JSON.stringify(config)), manifest.config.mediaType);
    await world.images.tag('localhost/lying:1', await put(Buffer.from(JSON.stringify(manifest)), MANIFEST));
    expectError(await install(reference), 'OCI_LAYER_DIFFID', 23);
  });

  it('as it cannot be written', async () => {
    mkdirSync(join(work, 'bin'));
    const tar = file(
      'bin/tar',
      '#!/bin/sh\n[ "$1" = --version ] && { echo "tar (GNU tar) 1"; exit; }\necho "tar: f: cannot make it" >&2\nexit 2\n',
    );
    chmodSync(tar, 0o755);
    // A store that others can reach into has folders, which tar writes.
    mkdirSync(storeOf('unwritable'), { recursive: true });
    chmodSync(storeOf('unwritable'), 0o755);
    const ran = await install(await world.image('unwritable:1', { files: { f: 'x' } }), {
      PATH: `${join(work, 'bin')}:${world.env.PATH ?? ''}`,
      SKYCAP_STORE_DIRECTORY: storeOf('unwritable'),
    });
    expect(expectError(ran, 'OCI_LAYER_WRITE', 25)).toContain('cannot make it');
  });
});

it('waits for a lock of the store, and not for ever', async () => {
  const ran = await busy.running.ended;
  busy.release();
  expect(expectError(ran, 'OCI_STORE_BUSY', 24)).toContain(join(storeOf('busy'), 'locks', 'store'));
});

interface Answer {
  readonly type: string;
  readonly bytes: Buffer;
  /** Announced; the connection is cut where fewer come. */
  readonly length?: number;
}

async function serve(answer: (path: string) => Answer): Promise<{ readonly host: string } & AsyncDisposable> {
  const server: Server = createServer((request, response) => {
    const { type, bytes, length = bytes.length } = answer(request.url ?? '');
    response.writeHead(200, { 'content-type': type, 'content-length': length });
    if (request.url === '/v2/' || request.method === 'HEAD') return void response.end();
    response.write(bytes, () => {
      if (bytes.length < length) response.destroy();
      else response.end();
    });
    if (bytes.length === 0) response.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
