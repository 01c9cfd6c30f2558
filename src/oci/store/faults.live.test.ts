import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  importedName,
  makeSource,
  operate,
  pulledName,
  type StoreOperation,
} from '../../testkit/images/store-operations.ts';
import { recordingTransfer } from '../../testkit/images/transfer.ts';
import { ErofsReader } from '../layer/index.ts';
import type { LowerForm } from '../port.ts';
import { openStore } from './index.ts';
import { type StoreStep, storeSteps } from './steps.ts';

const WORKER = fileURLToPath(new URL('../../testkit/images/store-worker.ts', import.meta.url));
const ROOM = '8m';

let top: string;
let source: string;
let disk: string;
let directory: string;

interface Scenario {
  readonly operation: StoreOperation;
  /** What has to be there, or wrong, for the step to be reached. */
  readonly prepare?: () => Promise<void> | void;
}

/** In which form a pull has its layers unpacked. */
let form: LowerForm;
const inForm = (operation: StoreOperation): StoreOperation =>
  operation === 'pull' && form === 'erofs' ? 'pull-erofs' : operation;
const perform = (operation: StoreOperation): Promise<void> =>
  operate(inForm(operation), { directory, source });
const pulled = (): Promise<void> => perform('pull');
const fresh = (operation: StoreOperation): Scenario => ({ operation });
const pull = fresh('pull');

/** After a pull; `damage` makes the step necessary. */
const after = (operation: StoreOperation, damage: () => Promise<void> | void): Scenario => ({
  operation,
  prepare: async () => {
    await pulled();
    await damage();
  },
});

const forgotten = after('prune', async () => {
  await using store = await openStore({ directory });
  await store.untag(pulledName);
});

const scenarios: Readonly<Record<StoreStep, Scenario>> = {
  'store.folders': fresh('open'),
  'store.index': fresh('open'),
  'store.layout': fresh('open'),
  'blob.begin': pull,
  'blob.write': pull,
  'blob.sync': pull,
  'blob.rename': pull,
  'blob.renamed': pull,
  'spool.write': fresh('import'),
  'spool.written': fresh('import'),
  'lock.made': fresh('import'),
  'lease.written': pull,
  'lease.renamed': pull,
  'index.written': pull,
  'index.renamed': pull,
  'layer.begin': pull,
  'layer.unpacked': pull,
  'layer.record': pull,
  'layer.replace': after('pull', () => {
    for (const layer of layers()) {
      const record = JSON.parse(readFileSync(join(layer, 'layer.json'), 'utf8')) as object;
      writeFileSync(
        join(layer, 'layer.json'),
        JSON.stringify({ ...record, durable: false, boot: 'earlier' }),
      );
    }
  }),
  'layer.renamed': pull,
  'layer.durable': pull,
  'prune.leases': forgotten,
  'prune.blob': forgotten,
  'prune.layer': forgotten,
  'prune.trash': forgotten,
  'fsck.aside': after('fsck', () => writeFileSync(join(directory, 'index.json'), '{"manifests":')),
  'fsck.blob': after('fsck', () => flip(largestBlob())),
  'fsck.manifest': after('fsck', () => rmSync(largestBlob())),
  'fsck.layer': after('fsck', () => {
    const layer = layers()[0] as string;
    const [folder] = form === 'erofs' ? [] : readdirSync(join(layer, 'root', 'd'));
    truncateSync(join(layer, folder === undefined ? 'image.erofs' : `root/d/${folder}`), 1000);
  }),
};

const names = (folder: string): readonly string[] => readdirSync(join(directory, folder));
const layers = (): readonly string[] => names('layers').map((name) => join(directory, 'layers', name));

function blobs(): readonly { readonly path: string; readonly name: string; readonly bytes: Buffer }[] {
  const folder = join(directory, 'blobs', 'sha256');
  if (!existsSync(folder)) return [];
  return readdirSync(folder).map((name) => ({
    path: join(folder, name),
    name,
    bytes: readFileSync(join(folder, name)),
  }));
}

function largestBlob(): string {
  return blobs().toSorted((a, b) => b.bytes.length - a.bytes.length)[0]?.path ?? '';
}

function flip(path: string): void {
  const bytes = readFileSync(path);
  bytes[700] = (bytes[700] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}

/** Runs the operation in a process of its own that stops at the step. */
function start(operation: StoreOperation, failpoint: string): { child: ChildProcess; ended: Promise<Ended> } {
  const child = spawn(process.execPath, [WORKER, inForm(operation), directory, source], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, SKYCAP_FAILPOINT: failpoint },
  });
  let said = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const ended = new Promise<Ended>((resolve) =>
    child.on('close', (code, signal) => resolve({ code, signal, said })),
  );
  return { child, ended };
}

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly said: string;
}

/** True once the process stands still, false if it has ended. Nobody tells us of the former. */
async function isFrozen(child: ChildProcess): Promise<boolean> {
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null) return false;
    const stat = readFileSync(`/proc/${child.pid}/stat`, 'latin1');
    if (/^\d+ \(.*\) T /.test(stat)) return true;
    await delay(5);
  }
}

/** Takes every page that is left. */
function fill(path: string): void {
  const handle = openSync(path, 'w');
  for (const size of [1 << 16, 1 << 12]) {
    try {
      for (;;) writeSync(handle, Buffer.alloc(size));
    } catch (error) {
      if ((error as { code?: string }).code !== 'ENOSPC') throw error;
    }
  }
  closeSync(handle);
}

/** What holds at every moment, whatever was cut off: no half blob, and who reads the layout gets whole images. */
function expectWhole(except: readonly string[] = []): void {
  for (const { path, name, bytes } of blobs()) {
    if (!except.includes(path)) expect(createHash('sha256').update(bytes).digest('hex')).toBe(name);
  }
}

function expectReadable(reference: string): void {
  const target = mkdtempSync(join(top, 'copy-'));
  execFileSync('skopeo', [
    'copy',
    '-q',
    '--insecure-policy',
    `oci:${directory}:${reference}`,
    `dir:${target}`,
  ]);
}

/** After the same operation once more: everything is there, and nothing is left of what was cut off. */
async function expectMended(operation: StoreOperation): Promise<void> {
  await perform(operation);
  expectWhole();
  if (operation === 'fsck') {
    await using store = await openStore({ directory });
    expect(await store.fsck({ repair: false, ...recordingTransfer() })).toEqual([]);
    await pulled();
  }
  if (operation === 'pull' || operation === 'fsck') expectReadable(pulledName);
  if (operation === 'import') expectReadable(importedName);
  if (operation === 'pull') {
    const contents = await Promise.all(layers().map(namesIn));
    expect(contents.toSorted()).toEqual(['one', 'two']);
  }
  if (operation === 'prune') expect(blobs()).toEqual([]);
  expect(names('ingest')).toEqual([]);
  expect(names('layers').filter((name) => name.startsWith('tmp-'))).toEqual([]);
  expect([...names('.'), ...names('leases')].filter((name) => name.endsWith('.tmp'))).toEqual([]);
  await perform('prune');
  expect(names('trash')).toEqual([]);
  expect(names('locks').filter((name) => /^(holder|spool)-/.test(name))).toEqual([]);
  await using store = await openStore({ directory });
  expect(await store.fsck({ repair: false, ...recordingTransfer() })).toEqual([]);
}

async function namesIn(layer: string): Promise<string> {
  if (form === 'folder') return readdirSync(join(layer, 'root', 'd')).join();
  await using reader = await ErofsReader.open(join(layer, 'image.erofs'));
  const folder = await reader.find('d');
  return folder === undefined ? '' : (await reader.names(folder)).map(({ name }) => name).join();
}

/** What is done otherwise where layers are files. */
const erofsSteps = storeSteps.filter((step) => /^(layer\.|fsck\.layer|prune\.layer)/.test(step));
const inForms: readonly (readonly [StoreStep, LowerForm])[] = [
  ...storeSteps.map((step) => [step, 'folder'] as const),
  ...erofsSteps.map((step) => [step, 'erofs'] as const),
];

const lacking =
  process.getuid?.() !== 0 ? 'root' : spawnSync('skopeo', ['--version']).error ? 'skopeo' : undefined;
if (lacking !== undefined) {
  const message = `interrupted writes of the store have to be tested with ${lacking}`;
  if (process.env.SKYCAP_REQUIRE_ENGINES === '1') throw new Error(message);
  console.warn(`NOT TESTED: ${message}`);
}

describe.skipIf(lacking !== undefined)('K10 every write of the store', () => {
  const hit = new Set<string>();

  beforeAll(async () => {
    top = mkdtempSync(join(tmpdir(), 'skycap-faults-'));
    source = join(top, 'source');
    await makeSource(source);
  });
  afterAll(() => rmSync(top, { recursive: true, force: true }));

  beforeEach(() => {
    disk = mkdtempSync(join(top, 'disk-'));
    directory = join(disk, 'store');
  });

  it.each(inForms)('K10 survives kill -9 at %s, layers as %s', async (step, layerForm) => {
    form = layerForm;
    const { operation, prepare } = scenarios[step];
    await prepare?.();
    const damaged = step === 'fsck.blob' ? [largestBlob()] : [];

    const { signal } = await start(operation, step).ended;

    expect(signal).toBe('SIGKILL');
    hit.add(step);
    expectWhole(damaged);
    if (operation === 'pull' || operation === 'import') {
      await using store = await openStore({ directory });
      const findings = await store.fsck({ repair: false, ...recordingTransfer() });
      const lasting = step === 'layer.replace' ? ['layer', 'partial'] : ['partial'];
      expect(findings.filter(({ kind }) => !lasting.includes(kind))).toEqual([]);
      for (const { reference } of await store.list()) expectReadable(reference);
    }
    await expectMended(operation);
  });

  it('K10 has no step that no operation reaches', () => {
    expect([...hit].toSorted()).toEqual([...storeSteps].toSorted());
  });

  describe('on a disk that is full from then on', () => {
    beforeEach(() => {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${ROOM},mode=700`, 'tmpfs', disk]);
    });
    afterEach(() => {
      execFileSync('umount', ['-l', disk]);
    });

    it.each(inForms)('K11 loses nothing at %s, layers as %s', async (step, layerForm) => {
      form = layerForm;
      const { operation, prepare } = scenarios[step];
      await prepare?.();
      const damaged = step === 'fsck.blob' ? [largestBlob()] : [];

      const { child, ended } = start(operation, `${step}:SIGSTOP`);
      expect(await isFrozen(child)).toBe(true);
      fill(join(disk, 'fill'));
      child.kill('SIGCONT');
      const { code, said } = await ended;

      expect(code === 0 ? '' : said).toBe(code === 0 ? '' : 'DISK_FULL');
      expectWhole(damaged);
      rmSync(join(disk, 'fill'));
      await expectMended(operation);
    });
  });
});

it('the folder of a store stays private', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'skycap-private-'));
  mkdirSync(join(folder, 'open'), { mode: 0o755 });
  await using _store = await openStore({ directory: join(folder, 'open', 'store') });
  expect(
    execFileSync('stat', ['-c', '%a', join(folder, 'open', 'store')])
      .toString()
      .trim(),
  ).toBe('700');
  rmSync(folder, { recursive: true, force: true });
});
