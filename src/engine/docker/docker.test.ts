import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PinnedImage } from '../../oci/index.ts';
import { fc } from '../../testkit/property.ts';
import { plainRun } from '../contract/plain-run.ts';
import type { ContainerFile, ContainerRun } from '../port.ts';
import { type BodyContext, containerBody } from './container-body.ts';
import { dockerEndpoint } from './endpoint.ts';
import { FrameDecoder, StartReport } from './frames.ts';
import { helperBinary, helperImage } from './helper/index.ts';
import { tagRepository } from './images.ts';
import { installationVolumeName, runName } from './names.ts';
import { placeFiles } from './placement.ts';
import { placesOf } from './places.ts';
import { probeDocker } from './probe.ts';
import { notStarted } from './start-failure.ts';
import { directoryItem, fileItem, gather, itemsBelow, packItems, readItems } from './tar.ts';
import { resolveUser } from './users.ts';

const ROOT = { uid: 0, gid: 0 };

function frame(kind: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(8);
  header[0] = kind;
  header.writeUInt32BE(payload.length, 4);
  return Buffer.concat([header, payload]);
}

function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const parts: Buffer[] = [];
  let at = 0;
  for (const size of sizes) {
    parts.push(bytes.subarray(at, at + size));
    at += size;
  }
  parts.push(bytes.subarray(at));
  return parts;
}

describe('frames', () => {
  it('come out whole and in order, however the stream is cut', () => {
    const frames = fc.array(fc.tuple(fc.constantFrom(1, 2), fc.uint8Array({ maxLength: 40 })), {
      maxLength: 12,
    });
    fc.assert(
      fc.property(frames, fc.array(fc.nat(11)), (list, sizes) => {
        const wire = Buffer.concat(list.map(([kind, payload]) => frame(kind, Buffer.from(payload))));
        const got = { stdout: '', stderr: '' };
        const decoder = new FrameDecoder((stream, chunk) => {
          got[stream] += chunk.toString('latin1');
        });
        for (const part of cut(wire, sizes)) decoder.push(part);
        const want = (kind: number): string =>
          list.map(([k, payload]) => (k === kind ? Buffer.from(payload).toString('latin1') : '')).join('');
        expect(got).toEqual({ stdout: want(1), stderr: want(2) });
        expect(decoder.whole).toBe(true);
      }),
    );
  });
  it('tell a cut-off stream and one that is not framed', () => {
    const decoder = new FrameDecoder(() => {});
    decoder.push(frame(1, Buffer.from('abc')).subarray(0, 9));
    expect(decoder.whole).toBe(false);
    expect(() => new FrameDecoder(() => {}).push(Buffer.from('plain text, no frames'))).toThrow('not framed');
    expect(() => new FrameDecoder(() => {}).push(frame(3, Buffer.from('x')))).toThrow('not framed');
  });
});

describe('the report of a command that could not be executed', () => {
  const run = (
    text: string,
    sizes: readonly number[] = [],
  ): { passed: string; errno: number | undefined } => {
    let passed = '';
    const report = new StartReport('mark-1', (chunk) => {
      passed += Buffer.from(chunk).toString('latin1');
    });
    for (const part of cut(Buffer.from(text, 'latin1'), sizes)) if (part.length > 0) report.push(part);
    // The end may pass what was held.
    const errno = report.end();
    return { passed, errno };
  };
  it.each([[[]], [[1, 1, 1, 1, 1, 1, 1, 1, 1]], [[6, 1]], [[8]]])(
    'is taken out of stderr, cut at %j',
    (sizes) => {
      expect(run('mark-1 13\n', sizes)).toEqual({ passed: '', errno: 13 });
    },
  );
  it.each([
    '',
    'm',
    'mark-1',
    'mark-1 ',
    'mark-1 13',
    'mark-1 13\nmore',
    'mark-1 x\n',
    'mark-2 13\n',
    ' mark-1 13\n',
    'mark-1 1234567\n',
  ])('lets everything else pass: %j', (text) => {
    for (const sizes of [[], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]])
      expect(run(text, sizes)).toEqual({ passed: text, errno: undefined });
  });
});

describe('resolveUser', () => {
  const accounts = {
    passwd: 'root:x:0:0::/:\napp:x:12:34::/:\nbroken\n777:x:5:6::/:\n',
    group: 'root:x:0:\ntools:x:77:\n',
  };
  it.each([
    ['', 0, 0],
    ['root', 0, 0],
    ['app', 12, 34],
    ['12', 12, 34],
    ['99', 99, 0],
    ['99:tools', 99, 77],
    ['app:0', 12, 0],
    ['4294967294:1', 4294967294, 1],
    ['777', 5, 6],
  ])('%j is %i:%i', (user, uid, gid) => {
    expect(resolveUser(user, accounts, 'i')).toEqual({ uid, gid });
  });
  it.each(['ghost', 'app:ghosts', '-1', '99999999999', 'root:-1', ' root'])('%j is refused', (user) => {
    expect(() => resolveUser(user, accounts, 'i')).toThrow(/image i has no (user|group)/);
  });
  it('needs no account files for numbers', () => {
    expect(resolveUser('5', { passwd: undefined, group: undefined }, 'i')).toEqual({ uid: 5, gid: 0 });
    expect(() => resolveUser('app', { passwd: undefined, group: undefined }, 'i')).toThrow('has no user');
  });
});

describe('dockerEndpoint', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'skycap-context-'));
    const id = createHash('sha256').update('mine').digest('hex');
    await mkdir(join(folder, 'contexts', 'meta', id), { recursive: true });
    await writeFile(
      join(folder, 'contexts', 'meta', id, 'meta.json'),
      JSON.stringify({ Name: 'mine', Endpoints: { docker: { Host: 'unix:///run/mine.sock' } } }),
    );
  });
  afterAll(async () => {
    await rm(folder, { recursive: true });
  });
  it('is DOCKER_HOST, then the context, then the usual socket', async () => {
    expect(await dockerEndpoint()).toEqual({ socketPath: '/var/run/docker.sock', from: 'default' });
    expect(await dockerEndpoint({ configDirectory: folder })).toMatchObject({ from: 'default' });
    expect(
      await dockerEndpoint({ host: 'unix:///x.sock', context: 'mine', configDirectory: folder }),
    ).toMatchObject({ socketPath: '/x.sock' });
    expect(await dockerEndpoint({ context: 'mine', configDirectory: folder })).toEqual({
      socketPath: '/run/mine.sock',
      from: 'context mine',
    });
    await writeFile(join(folder, 'config.json'), '{"currentContext": "mine"}');
    expect(await dockerEndpoint({ configDirectory: folder })).toMatchObject({ socketPath: '/run/mine.sock' });
    await writeFile(join(folder, 'config.json'), '{"currentContext": ');
    expect(await dockerEndpoint({ configDirectory: folder })).toMatchObject({ from: 'default' });
  });
  it.each(['tcp://1.2.3.4:2376', 'ssh://host', 'npipe://x'])('refuses %s with the way out', async (host) => {
    await expect(dockerEndpoint({ host })).rejects.toMatchObject({
      code: 'ENGINE_DOCKER_ADDRESS',
      exitCode: 40,
      hint: expect.stringContaining('unix'),
    });
  });
  it('refuses a context that does not exist', async () => {
    await expect(dockerEndpoint({ context: 'none', configDirectory: folder })).rejects.toMatchObject({
      code: 'ENGINE_DOCKER_ADDRESS',
    });
  });
});

describe('probeDocker', () => {
  it('says why it does not fit, and never throws', async () => {
    expect(await probeDocker(join(tmpdir(), 'no-such.sock'))).toMatchObject({
      fits: false,
      reason: expect.stringContaining('ENOENT'),
      hint: expect.stringContaining('Docker'),
    });
  });
});

const RUN: ContainerRun = {
  ...plainRun,
  containerId: 'c-1',
  image: 'tools',
  argv: ['tool', '--x', 'a b'],
  env: { A: '1' },
  user: 'app',
};
const CONTEXT: BodyContext = {
  runId: 'r1',
  installationId: 'i1',
  image: { config: { env: ['PATH=/bin', 'EXTRA=1'] } } as unknown as PinnedImage,
  imageId: 'sha256:abc',
  facts: { local: true, socketGid: 106, limits: { memory: true, pids: true, cpus: true } },
  socketPath: '/run/d.sock',
  workspaceVolume: 'w',
  mark: 'mark',
  init: { kind: 'mounted', source: '/h' },
  mountedFiles: [],
  placeholders: [],
  shell: false,
};

describe('containerBody', () => {
  it('confines, keeps no log in the daemon, and takes away what the image would add', () => {
    const body = containerBody(RUN, CONTEXT);
    expect(body.Entrypoint).toEqual(['/.skycap-helper', 'run', 'mark', 'tool', '--x', 'a b']);
    expect(body.Env).toEqual(['A=1', 'PATH', 'HOSTNAME', 'EXTRA']);
    expect(body.Healthcheck).toEqual({ Test: ['NONE'] });
    expect(body.HostConfig).toMatchObject({
      NetworkMode: 'none',
      CapDrop: ['NET_RAW'],
      SecurityOpt: ['no-new-privileges'],
      LogConfig: { Type: 'none' },
      Init: false,
    });
    expect(body.HostConfig.Privileged).toBeUndefined();
    expect(body.HostConfig.Mounts.map((mount) => mount.Target)).toEqual([
      '/cnab/app',
      '/.skycap-helper',
      '/cnab/app/outputs',
    ]);
    expect(body.HostConfig.Mounts.every((mount) => mount.Type === 'bind' || mount.VolumeOptions.NoCopy)).toBe(
      true,
    );
  });
  it('gives what was asked for and no more', () => {
    const socket = containerBody({ ...RUN, dockerSocket: true }, CONTEXT).HostConfig;
    expect(socket.GroupAdd).toEqual(['106']);
    expect(socket.Mounts).toContainEqual({
      Type: 'bind',
      Source: '/run/d.sock',
      Target: '/var/run/docker.sock',
      ReadOnly: false,
    });
    expect(containerBody({ ...RUN, privileged: true }, CONTEXT).HostConfig).toMatchObject({
      Privileged: true,
    });
    expect(containerBody({ ...RUN, network: 'host' }, CONTEXT).HostConfig.NetworkMode).toBe('host');
    expect(containerBody({ ...RUN, network: 'default' }, CONTEXT).HostConfig.NetworkMode).toBe(
      'skycap-r1-network',
    );
    expect(
      containerBody({ ...RUN, resources: { cpus: 0.5, memoryBytes: 1000, pids: 5 } }, CONTEXT).HostConfig,
    ).toMatchObject({ NanoCpus: 5e8, Memory: 1000, MemorySwap: 1000, PidsLimit: 5 });
    const readOnly = containerBody({ ...RUN, workspace: 'ro' }, CONTEXT).HostConfig.Mounts[0];
    expect(readOnly).toMatchObject({ Target: '/cnab/app', ReadOnly: true });
    expect(
      containerBody({ ...RUN, workspace: 'none' }, CONTEXT).HostConfig.Mounts.map((mount) => mount.Target),
    ).toEqual(['/.skycap-helper', '/cnab/app/outputs']);
  });
  it.each(['cpus', 'memory', 'pids'] as const)(
    'refuses a limit of %s that the daemon cannot keep',
    (what) => {
      const facts = { ...CONTEXT.facts, limits: { ...CONTEXT.facts.limits, [what]: false } };
      const resources = { cpus: 1, memoryBytes: 1, pids: 1 };
      expect(() => containerBody({ ...RUN, resources }, { ...CONTEXT, facts })).toThrow(
        `cannot limit ${what}`,
      );
      expect(() => containerBody(RUN, { ...CONTEXT, facts })).not.toThrow();
    },
  );
});

describe('placeFiles', () => {
  const file = (more: Partial<ContainerFile>): ContainerFile => ({
    path: '/x',
    content: new Uint8Array(),
    mode: 0o400,
    sensitive: true,
    readOnly: true,
    ...more,
  });
  const where = (
    one: ContainerFile,
    facts: { local: boolean; canChown: boolean },
    more: Partial<ContainerRun> = {},
  ): string => {
    const placement = placeFiles({ ...RUN, ...more, files: [one] }, facts);
    return (
      Object.entries(placement).find(([, list]) => (list as readonly unknown[]).length === 1)?.[0] ??
      'nowhere'
    );
  };
  const rooted = { local: true, canChown: true };
  const user = { local: true, canChown: false };
  const remote = { local: false, canChown: false };
  it.each([
    [{}, rooted, 'mounted'],
    [{ readOnly: false }, rooted, 'mounted'],
    [{ readOnly: false, sensitive: false }, rooted, 'written'],
    [{ sensitive: false }, rooted, 'mounted'],
    [{}, user, 'written'],
    [{}, remote, 'written'],
    [{ path: '/cnab/app/x', readOnly: false, sensitive: false }, rooted, 'mounted'],
    [{ path: '/cnab/app/x' }, user, 'mounted'],
    [{ path: '/cnab/app/x', sensitive: false }, remote, 'shared'],
    [{ path: '/cnab/apple' }, remote, 'written'],
  ])('%j with %j is %s', (more, facts, expected) => {
    expect(where(file(more), facts)).toBe(expected);
  });
  it('refuses to put a secret into a workspace that others see', () => {
    expect(() => where(file({ path: '/cnab/app/x' }), remote)).toThrow(/does not see this host/);
    expect(where(file({ path: '/cnab/app/x' }), remote, { workspace: 'none' })).toBe('written');
  });
});

describe('names', () => {
  it('are valid for Docker whatever an id holds, and differ', () => {
    const names = ['a', 'a/b', '../x', 'ü', 'a'.repeat(300)].map((id) => runName(id, 'holder'));
    for (const name of names) expect(name).toMatch(/^[a-zA-Z0-9][a-zA-Z0-9_.-]{1,200}$/);
    expect(new Set(names).size).toBe(5);
    expect(installationVolumeName('a', 'x')).not.toBe(installationVolumeName('b', 'x'));
    expect(tagRepository('localhost:5000/Acme/app')).toBe('skycap/localhost-5000/acme/app');
  });
  it('never lead out of their folder', () => {
    for (const runId of ['..', '.', 'a/../..', 'x/y']) {
      const places = placesOf(
        { runtimeDirectory: '/m', workDirectory: '/d' },
        { runId, containerId: 'c', sensitive: true },
      );
      for (const path of [...places.all, places.directory, places.files])
        expect(path).toMatch(/^\/(m|d)\/run-[^/]+\/c(\/|$)/);
    }
  });
});

describe('archives', () => {
  it('lose their first component and keep bytes of names', async () => {
    const name = Buffer.from([0x78, 0xff]).toString('latin1');
    const content = Buffer.from('abc');
    const items = [
      directoryItem('top', 0o700, ROOT),
      { ...fileItem('', content, { mode: 0o640, owner: { uid: 5, gid: 6 } }), path: `top/${name}` },
    ];
    const found: string[] = [];
    for await (const item of itemsBelow(packItems(items))) {
      found.push(item.path);
      if (item.entry.type === 'file') {
        expect(item.entry).toMatchObject({ uid: 5, gid: 6, mode: 0o640 });
        expect(Buffer.concat(await gather(item.body)).toString()).toBe('abc');
      }
    }
    expect(found).toEqual(['', name]);
  });
  it.each(['../x', '/x', 'a/../../x'])('refuse %s', async (path) => {
    await expect(
      gather(readItems(packItems([fileItem(path, new Uint8Array(), { mode: 0o644, owner: ROOT })]))),
    ).rejects.toMatchObject({ code: 'ENGINE_ARCHIVE_INVALID' });
  });
  it('refuse rubbish with our own words', async () => {
    async function* rubbish(): AsyncGenerator<Uint8Array> {
      yield Buffer.alloc(1024, 7);
    }
    await expect(gather(readItems(rubbish()))).rejects.toMatchObject({ code: 'ENGINE_ARCHIVE_INVALID' });
  });
});

describe('the helper', () => {
  it('is a static program for both architectures, in an image with the same bytes each time', async () => {
    for (const [architecture, machine] of [
      ['amd64', 62],
      ['arm64', 183],
    ] as const) {
      const binary = helperBinary(architecture) as Buffer;
      expect(binary.subarray(0, 4).toString('latin1')).toBe('\x7fELF');
      expect(binary.readUInt16LE(18)).toBe(machine);
      expect(binary.includes('/lib')).toBe(false);
      expect((await helperImage(architecture)).id).toBe((await helperImage(architecture)).id);
    }
    await expect(helperImage('s390x')).rejects.toMatchObject({ code: 'ENGINE_DOCKER_IMAGE' });
  });
});

describe('notStarted', () => {
  const answer = (message: string) =>
    ({ started: false, status: 400, message: JSON.stringify({ message }) }) as const;
  it.each([
    ['exec: "nosuch": executable file not found in $PATH: unknown', 127, 'not-found'],
    ['exec: "/x": stat /x: no such file or directory: unknown', 127, 'not-found'],
    ['exec: "/x": permission denied: unknown', 126, 'not-executable'],
  ])('reads %s', (message, exitCode, cause) => {
    expect(notStarted(RUN, answer(message))).toMatchObject({ exitCode, cause });
  });
  it.each([
    'exec /.skycap-helper: exec format error',
    'chdir to cwd ("/x") set in config.json failed: permission denied',
    'exec: "/.skycap-helper": stat: no such file or directory',
    'no space left on device',
  ])('is an error of the engine: %s', (message) => {
    expect(() => notStarted(RUN, answer(message))).toThrow(message);
  });
});
