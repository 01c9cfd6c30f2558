import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inPieces, tarOf } from '../../src/testkit/images/index.ts';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type Ran, type World } from '../support/world.ts';

describe.each(enginesToTest('oci-runtime'))('layers as file systems on %s', (engine) => {
  let world: World;
  let cwd: string;
  let store: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    const tools = await world.image('acme/tools:1');
    const second = await world.image('acme/second:1', { busybox: true, files: { data: 'of the layer' } });
    store = join(world.env.XDG_DATA_HOME as string, 'skycap/store');
    const run = (script: string): string =>
      `{id: only, description: Only, invoke: {name: second, action: {command: [sh, -c, "${script}"]}}}`;
    cwd = world.bundle({
      'porter.yaml': `name: layers
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"}
  - {name: second, image: "${second}"}
customActions: {waits: {description: Waits, modifies: false}}
install:
  - ${run('cat /data; echo changed > /data; cat /data')}
  - {id: other, description: Other, invoke: {name: tools, action: {command: ["true"]}}}
waits:
  - ${run('echo looking; sleep 600')}
  - {id: other, description: Other, invoke: {name: tools, action: {command: ["true"]}}}
`,
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  const install = async (within: readonly string[] = []): Promise<Ran> =>
    expectCode(await world.skycap(['install', '--force', '--progress', 'json'], { cwd, within }), 0);
  /** How each image's layers came, by the events. */
  const forms = (ran: Ran): readonly unknown[] =>
    ran.events
      .filter((event) => event.type === 'engine.image' && event.phase === 'ready')
      .map(({ layers, because }) => (because === undefined ? layers : { layers, because }));

  const imageFiles = (): readonly string[] =>
    readdirSync(join(store, 'layers'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.erofs'))
      .map((name) => join(store, 'layers', name));

  it('S35 mounts what root wrote itself, read-only, in the mount namespace of the run', async () => {
    expect(forms(await install())).toEqual(['erofs', 'erofs']);
    const running = world.start(['invoke', '--action', 'waits', '--progress', 'json'], { cwd });
    await running.said('"looking');
    const mounted = erofsMounts(world);
    const here = erofsMounts(world, `/proc/${process.pid}/mountinfo`);
    running.process.kill('SIGINT');
    const ran = expectCode(await running.ended, 130);
    expect(forms(ran)).toEqual(['erofs', 'erofs']);
    // Two layers, of which both images have one.
    expect(new Set(mounted.map(([place]) => place)).size).toBe(2);
    expect(imageFiles()).toHaveLength(2);
    for (const [, options] of mounted)
      expect(options.split(',')).toEqual(expect.arrayContaining(['ro', 'nosuid', 'nodev']));
    expect(here).toEqual([]);
    expect(erofsMounts(world)).toEqual([]);
  });

  it('S35 writes again what has changed since, before it is mounted', async () => {
    await install();
    const before = imageFiles().map((path) => readFileSync(path));
    for (const path of imageFiles()) {
      const file = openSync(path, 'r+');
      writeSync(file, 'x', 4096 + 7);
      closeSync(file);
    }
    const ran = await install();
    expect(forms(ran)).toEqual(['erofs', 'erofs']);
    expect(ran.stderr).toMatch(/of the layer.*changed/s);
    expect(imageFiles().map((path) => readFileSync(path))).toEqual(before);
  });

  it('S35 mounts nothing from a store that others can reach into, and says so', async () => {
    chmodSync(store, 0o711);
    try {
      const ran = await install();
      const because = expect.stringContaining('others than root can reach into the store');
      expect(forms(ran)).toEqual([
        { layers: 'folder', because },
        { layers: 'folder', because },
      ]);
      expect(ran.stderr).toContain('of the layer');
    } finally {
      chmodSync(store, 0o700);
    }
  });

  it('S35 mounts nothing from a store that others can put another one in the place of, and says so', async () => {
    const above = dirname(store);
    const { mode } = statSync(above);
    const formsAt = async (changed: number): Promise<readonly unknown[]> => {
      chmodSync(above, changed);
      return forms(await install());
    };
    try {
      const because = expect.stringContaining(`others than root can change where ${above} leads`);
      expect(await formsAt(0o777)).toEqual([
        { layers: 'folder', because },
        { layers: 'folder', because },
      ]);
      // What is root's nobody else can rename here.
      expect(await formsAt(0o1777)).toEqual(['erofs', 'erofs']);
    } finally {
      chmodSync(above, mode);
    }
  });

  it('S35 has one layer as a folder whose files could not be changed otherwise, and says so', async () => {
    // More than ext4 holds, where a changed file's copy lies.
    const xattrs = new Map([['user.large', Buffer.alloc(5000, 'x')]]);
    const tar = tarOf([{ path: 'large', content: 'as it came, ', xattrs }]);
    const image = await world.image('acme/large:1', { busybox: true, layers: [{ tar: inPieces(tar) }] });
    const folder = world.bundle({
      'porter.yaml': `name: large
version: 1.0.0
invocationImages: [{name: large, image: "${image}"}]
install:
  - {id: only, description: Only, invoke: {name: large, action: {command: [sh, -c, "echo changed >> /large && cat /large"]}}}
`,
    });
    expectCode(await world.skycap(['lock'], { cwd: folder }), 0);
    const ran = expectCode(await world.skycap(['install', '--progress', 'json'], { cwd: folder }), 0);
    const because = expect.stringMatching(
      /^1 of 2 layers are folders: sha256:[0-9a-f]{64} has a file whose attributes would not be copied with it$/,
    );
    expect(forms(ran)).toEqual([{ layers: 'erofs', because }]);
    expect(ran.stderr).toContain('as it came, changed');
  });

  it('S35 takes a loop device where the file cannot be mounted itself, and folders where nothing can', async () => {
    // A file on overlayfs cannot be mounted itself; without the control device there is no loop device either.
    mkdirSync(join(world.directory, 'upper'), { mode: 0o700 });
    mkdirSync(join(world.directory, 'overlay-work'));
    const onOverlay = `mount -t overlay -o lowerdir=${store},upperdir=${world.directory}/upper,workdir=${world.directory}/overlay-work overlay ${store}`;
    const within = (script: string): readonly string[] => [
      'unshare',
      '--mount',
      'sh',
      '-euc',
      `${script}; exec "$@"`,
      'sh',
    ];
    expect(forms(await install(within(onOverlay)))).toEqual(['erofs', 'erofs']);
    const noLoop = 'for one in /dev/loop*; do mount --bind /dev/null $one; done';
    const ran = await install(within(`${onOverlay}; ${noLoop}`));
    const because = expect.stringContaining('this host does not mount file-system images: ');
    expect(forms(ran)).toEqual([
      { layers: 'folder', because },
      { layers: 'folder', because },
    ]);
    expect(ran.events).toContainEqual(expect.objectContaining({ type: 'engine.notice' }));
    expect(ran.stderr).toContain('of the layer');
  });
});

/** Place and options of each EROFS mount of the world's runs, in whatever namespace unless one is named. */
function erofsMounts(world: World, of = '/proc/[0-9]*/mountinfo'): readonly (readonly [string, string])[] {
  const runtime = world.env.XDG_RUNTIME_DIR as string;
  const lines = execFileSync('sh', ['-c', `cat ${of} 2>/dev/null || :`], {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  }).split('\n');
  return lines
    .filter((line) => line.includes(' - erofs ') && line.includes(runtime))
    .map((line) => line.split(' '))
    .map((words) => [words[4] as string, words[5] as string]);
}
