// The process that orphan.ts kills. Reads its order from standard input.
import { readFileSync } from 'node:fs';
import type { ContainerRun, Engine } from '../port.ts';
import type { OrphanOrder } from './orphan.ts';

const order = JSON.parse(readFileSync(0, 'utf8')) as OrphanOrder;
const { openForContract } = (await import(order.module)) as {
  openForContract(options: unknown): Promise<Engine>;
};
const engine = await openForContract(order.options);
const operation = { signal: new AbortController().signal, emit: () => {} };
const session = await engine.open(order.spec, operation);
const files = order.run.files.map((file) => ({ ...file, content: Buffer.from(file.content, 'base64') }));
await session.run({ ...order.run, files } as unknown as ContainerRun, {
  onOutput: () => {},
  onStarted: () => process.stdout.write('started\n'),
  signal: operation.signal,
  kill: operation.signal,
});
// The killer is slow: stay.
setInterval(() => {}, 1000);
