import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { exited } from '../../kernel/system/index.ts';
import type { ContainerRun, SessionSpec } from '../port.ts';

/** A module that exports `openForContract(options)`, and JSON-safe options for it. */
export interface OrphanEngine {
  readonly module: string;
  readonly options: unknown;
}

export interface OrphanOrder extends OrphanEngine {
  readonly spec: SessionSpec;
  readonly run: Omit<ContainerRun, 'files'> & { readonly files: readonly { readonly content: string }[] };
}

/** Has a child process open a session and start a container, and kills it with -9 as soon as that runs. */
export async function orphan(engine: OrphanEngine, spec: SessionSpec, run: ContainerRun): Promise<void> {
  const files = run.files.map((file) => ({ ...file, content: Buffer.from(file.content).toString('base64') }));
  const order: OrphanOrder = { ...engine, spec, run: { ...run, files } };
  const child = spawn(process.execPath, [fileURLToPath(new URL('orphan-child.ts', import.meta.url))], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let words = '';
  child.stderr.on('data', (chunk: Buffer) => {
    words += chunk;
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  child.stdout.on('data', (chunk: Buffer) => {
    if (String(chunk).includes('started')) resolve();
  });
  child.stdin.end(JSON.stringify(order));
  const end = exited(child);
  await Promise.race([
    promise,
    end.then((code) => {
      throw new Error(`the creating process ended with ${code} before its container ran: ${words}`);
    }),
  ]);
  child.kill('SIGKILL');
  await end;
}
