// Fills a small tmpfs and goes on: unshare -m sh -c 'mount -t tmpfs -o size=2m tmpfs DIR && node full-disk.fixture.ts DIR'.
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';

import { isSkycapError } from '../../kernel/index.ts';
import { openState } from '../index.ts';
import { anInstallation, anOutput, aRun, joined, linesOf, pieces } from './samples.fixture.ts';

const directory = process.argv[2] ?? '';
const ballast = join(directory, 'ballast');

/** Leaves not a byte free. */
function fill(): void {
  const handle = openSync(ballast, 'a');
  try {
    for (let size = 65536; size >= 1; size = Math.floor(size / 2)) writeUntilFull(handle, size);
  } finally {
    closeSync(handle);
  }
}

function writeUntilFull(handle: number, size: number): void {
  try {
    for (;;) writeSync(handle, Buffer.alloc(size));
  } catch (error) {
    if ((error as { code?: string }).code !== 'ENOSPC') throw error;
  }
}

async function codeOf(work: () => Promise<unknown>): Promise<string> {
  try {
    await work();
    return 'no error';
  } catch (error) {
    return isSkycapError(error) ? `${error.code} ${error.exitCode}` : String(error);
  }
}

const result: Record<string, unknown> = {};
const state = join(directory, 'state');
{
  await using store = await openState({ directory: state });
  await store.putInstallation(anInstallation('app'));
  await store.putRun(aRun('A'));
  await store.putOutput(anOutput('A', 'ip', { sensitive: true }));
  await store.saveState('INST-app', 'A', pieces('earlier state'));
  const log = await store.openLog('A');
  log.write('{"n":0}');
  await log.flush();
  fill();
  const big = Buffer.alloc(900_000, 1);
  result.output = await codeOf(() => store.putOutput(anOutput('B', 'big', { value: big })));
  result.run = await codeOf(() => store.putRun(aRun('B', { plan: 'x'.repeat(900_000) })));
  result.state = await codeOf(() => store.saveState('INST-app', 'B', pieces(big)));
  for (let n = 1; n <= 2000; n++) log.write(JSON.stringify({ n, text: 'x'.repeat(60) }));
  result.log = await codeOf(() => log.flush());
  result.lock = await codeOf(() =>
    store.lock({ namespace: 'n', name: 'x' }, 'exclusive', { runId: 'B', action: 'x' }),
  );
  result.readable = [
    (await store.latestOutputs('INST-app')).map((output) => Buffer.from(output.value).toString()),
    (await joined(await store.loadState('INST-app')))?.toString(),
    (await store.listRuns({})).map((run) => run.id),
  ];
  result.rotate = await codeOf(() => store.rotateKeys());
  rmSync(ballast);
  result.retry = [
    await codeOf(() => log.flush()),
    await codeOf(() => store.putRun(aRun('B'))),
    await codeOf(() => store.putOutput(anOutput('B', 'big', { value: Buffer.from('small') }))),
    await codeOf(() => store.saveState('INST-app', 'B', pieces('later state'))),
    await codeOf(() => store.rotateKeys()),
  ];
  await log[Symbol.asyncDispose]();
  const lines = await linesOf(store.readLog('A', { follow: false, signal: new AbortController().signal }));
  result.lines = lines.map((line) => (JSON.parse(line) as { n: number }).n);
}
// A first start where nothing fits.
fill();
result.first = await codeOf(() => openState({ directory: join(directory, 'other') }));
result.reopen = await codeOf(async () => {
  await using store = await openState({ directory: state });
  result.after = [
    (await store.latestOutputs('INST-app')).map((output) => Buffer.from(output.value).toString()),
    (await joined(await store.loadState('INST-app')))?.toString(),
  ];
});
rmSync(ballast);
result.second = await codeOf(async () => {
  await using _store = await openState({ directory: join(directory, 'other') });
});
process.stdout.write(`${JSON.stringify(result)}\n`);
