import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Branch } from './branches.ts';
import { Coverage } from './coverage.ts';
import { fuzz, type Outcome } from './fuzz.ts';
import { targets } from './targets/index.ts';
import type { Planted } from './types.ts';

/** One parser in a process of its own: what is counted is its own, and one that does not come back can be ended. */
export interface Order {
  readonly parser: string;
  readonly seed: number;
  readonly seconds: number;
  /** By path below the root; none are counted where a fault is planted. */
  readonly branches: Readonly<Record<string, readonly Branch[]>>;
  readonly planted?: Planted;
}

export interface Report extends Omit<Outcome, 'failure'> {
  readonly problem?: string;
  /** Base64 of the input that shows it. */
  readonly input?: string;
  readonly reached: number;
  readonly total: number;
  readonly missing: readonly string[];
}

const ROOT = join(import.meta.dirname, '../..');
const LONGEST = 256 * 1024;
/** A judge reads several times, on a machine that others use; what is not back after so many looks never is. */
const STUCK_LOOKS = 40;
const LOOK_MS = 500;

function address(path: string): string {
  return pathToFileURL(join(ROOT, path)).href;
}

/** The fault is in what Node loads, never on the disk. */
function plant({ file, from, to }: Planted): void {
  const url = address(file);
  registerHooks({
    load: (asked, context, next) => {
      const loaded = next(asked, context);
      if (asked !== url) return loaded;
      const text = String(loaded.source);
      if (text.split(from).length !== 2) throw new Error(`${file} does not hold ${from} once`);
      return { ...loaded, source: text.replace(from, () => to) };
    },
  });
}

/**
 * Tells of an input that does not come back, from another thread, and ends the process. It counts its own looks and
 * asks no clock: a process that was stopped for minutes is back as soon as it runs again.
 */
function watch(): (bytes: Buffer) => void {
  const shared = new SharedArrayBuffer(8 + LONGEST);
  const head = new Int32Array(shared, 0, 2);
  const body = new Uint8Array(shared, 8);
  const work = `
    const { workerData, threadId } = require('node:worker_threads');
    const head = new Int32Array(workerData, 0, 2);
    let seen = -1;
    let looks = 0;
    setInterval(() => {
      if (head[0] !== seen) { seen = head[0]; looks = 0; return; }
      if (++looks < ${STUCK_LOOKS}) return;
      const input = Buffer.from(new Uint8Array(workerData, 8, head[1])).toString('base64');
      require('node:fs').writeSync(2, 'does not come back: ' + input + '\\n');
      process.kill(process.pid, 'SIGKILL');
    }, ${LOOK_MS});`;
  new Worker(work, { eval: true, workerData: shared }).unref();
  return (bytes) => {
    const length = Math.min(bytes.length, LONGEST);
    body.set(bytes.subarray(0, length));
    head[1] = length;
    Atomics.add(head, 0, 1);
  };
}

async function obey(order: Order): Promise<Report> {
  if (order.planted !== undefined) plant(order.planted);
  const branches = new Map(Object.entries(order.branches).map(([path, list]) => [address(path), list]));
  const coverage = new Coverage(branches);
  const load = targets[order.parser];
  if (load === undefined) throw new Error(`no parser is named ${order.parser}`);
  const { target } = await load();
  const { failure, ...outcome } = await fuzz(target, {
    seed: order.seed,
    seconds: order.seconds,
    coverage,
    begin: watch(),
    peers: true,
  });
  coverage.take();
  const found =
    failure === undefined ? {} : { problem: failure.problem, input: failure.bytes.toString('base64') };
  return {
    ...outcome,
    ...found,
    reached: coverage.reached,
    total: coverage.total,
    missing: coverage.missing(),
  };
}

process.once('message', async (order: Order) => {
  const report = await obey(order);
  process.send?.(report, () => process.exit(0));
});
