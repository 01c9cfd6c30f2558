import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAlive, type ProcessIdentity, signalProcess } from '../../kernel/system/index.ts';
import { engineError } from '../errors.ts';
import type { ContainerExit, ContainerIo } from '../port.ts';
import { type ContainerStatus, Follower, readIfAny, readStatus } from './follow.ts';
import { recordedAlive, recordedProcess } from './holder.ts';
import { containerFolder, holderFolders, outputsFolder, type RunLayout } from './layout.ts';
import { removeGroups, wasOutOfMemory } from './limits.ts';
import type { PlannedMount } from './mount-plan.ts';
import { OutputFolders } from './output-folders.ts';

/** What must be known of a container by whoever collects it, also another process. No secrets. */
export interface ContainerRecord {
  readonly containerId: string;
  readonly image: string;
  /** Name of its overlay; the writable layer is `u/NAME/upper`. */
  readonly overlay: string;
  readonly mounts: readonly PlannedMount[];
  /** Paths that will be asked for, with the image's own links resolved. */
  readonly real: Readonly<Record<string, readonly string[]>>;
  readonly groups: readonly string[];
  readonly sensitive: boolean;
}

export function writeRecord(layout: RunLayout, record: ContainerRecord): void {
  writeFileSync(join(containerFolder(layout, record.containerId), 'record.json'), JSON.stringify(record), {
    mode: 0o600,
  });
}

export function readRecord(layout: RunLayout, containerId: string): ContainerRecord | undefined {
  const text = readIfAny(join(containerFolder(layout, containerId), 'record.json'));
  return text === '' ? undefined : (JSON.parse(text) as ContainerRecord);
}

/** Makes the files that the supervisor and the runtime write into, so that they exist with the right mode. */
export function makeContainerFolder(
  layout: RunLayout,
  output: OutputFolders,
  { containerId, sensitive }: Pick<ContainerRecord, 'containerId' | 'sensitive'>,
): string {
  const control = containerFolder(layout, containerId);
  mkdirSync(join(control, 'f'), { recursive: true, mode: 0o700 });
  // Those on the tmpfs go with the rest of what is there.
  if (sensitive) new OutputFolders().make(control);
  else output.make(join(layout.output, containerId));
  return control;
}

function outputFolder(layout: RunLayout, containerId: string, sensitive: boolean): string {
  return sensitive ? containerFolder(layout, containerId) : join(layout.output, containerId);
}

/**
 * Follows a container to its end, whoever started it: output, cancellation, exit. Undefined if it never started.
 *
 * @throws ENGINE_START_FAILED, ENGINE_ENV_TOO_LONG
 */
export async function follow(
  layout: RunLayout,
  record: ContainerRecord,
  io: ContainerIo & { onNotice(message: string): void },
): Promise<ContainerExit | undefined> {
  const control = containerFolder(layout, record.containerId);
  const output = outputFolder(layout, record.containerId, record.sensitive);
  const spill = record.sensitive ? join(layout.output, record.containerId) : undefined;
  if (spill !== undefined) mkdirSync(spill, { recursive: true, mode: 0o700 });
  using follower = new Follower({ control, output, spill }, () =>
    io.onNotice(`the output of ${record.containerId} is large: its beginning is in a private file on disk`),
  );
  const onAbort = (): void => follower.wake();
  io.signal.addEventListener('abort', onAbort);
  io.kill.addEventListener('abort', onAbort);
  const supervisor = join(control, 'supervisor');
  let told = false;
  let process: ProcessIdentity | undefined;
  let quiet = true;
  let sent: 'nothing' | 'SIGTERM' | 'SIGUSR1' = 'nothing';
  try {
    for (;;) {
      const status = follower.hasChanged('status') ? follower.status() : undefined;
      if (!told && (status !== undefined || follower.hasChanged('exec')) && follower.execErrno() === 0) {
        told = true;
        io.onStarted?.();
      }
      if (status !== undefined || follower.hasChanged('stdout', 'stderr'))
        await follower.drain((stream, chunk) => io.onOutput(stream, chunk));
      if (status !== undefined) return exitOf(layout, record, { status, executed: follower.execErrno() });
      if (follower.hasChanged('supervisor')) process ??= recordedProcess(supervisor);
      // Who writes files is alive; the dead are looked for when nothing happens.
      if (quiet && process === undefined) {
        if (!somebodyMayStart(layout) && follower.status() === undefined) return undefined;
      } else if (quiet && process !== undefined && !isAlive(process) && follower.status() === undefined) {
        if (!initAlive(control)) return lost(control);
      } else if (process !== undefined) {
        const wanted = io.kill.aborted ? 'SIGUSR1' : io.signal.aborted ? 'SIGTERM' : 'nothing';
        if (wanted !== sent && wanted !== 'nothing') {
          sent = wanted;
          signalProcess(process, wanted);
        }
      }
      quiet = await follower.change();
    }
  } finally {
    io.signal.removeEventListener('abort', onAbort);
    io.kill.removeEventListener('abort', onAbort);
  }
}

/** An order may still lie in the pipe of a holder whose tool was killed: it is read before the holder ends. */
function somebodyMayStart(layout: RunLayout): boolean {
  return holderFolders(layout).some(
    (folder) => !existsSync(join(folder, 'drained')) && recordedAlive(join(folder, 'holder')),
  );
}

function initAlive(control: string): boolean {
  const pid = Number(readIfAny(join(control, 'pid')));
  return pid > 0 && readIfAny(`/proc/${pid}/cmdline`).startsWith('/dev/.init\0');
}

function lost(control: string): ContainerExit {
  const startedAt = statSync(join(control, 'supervisor')).mtime.toISOString();
  return {
    exitCode: -1,
    cause: 'unknown',
    startedAt,
    finishedAt: new Date().toISOString(),
    message: 'its supervisor was killed, and nothing tells how it ended',
  };
}

function exitOf(
  layout: RunLayout,
  record: ContainerRecord,
  end: { readonly status: ContainerStatus; readonly executed: number | undefined },
): ContainerExit {
  const control = containerFolder(layout, record.containerId);
  const { status, executed } = end;
  const times = {
    startedAt: statSync(join(control, 'supervisor')).mtime.toISOString(),
    finishedAt: statSync(join(control, 'status')).mtime.toISOString(),
  };
  const oom = status.exitCode === 137 && status.cause === 'exited' && wasOutOfMemory(record.groups);
  if (executed === undefined && status.cause === 'exited' && !oom) throw startError(layout, record);
  if (executed === undefined || executed === 0 || status.cause !== 'exited') {
    return { exitCode: status.exitCode, cause: oom ? 'oom' : status.cause, ...times };
  }
  if (executed === E2BIG) throw tooLong(record);
  const notFound = status.exitCode === 127;
  return {
    exitCode: status.exitCode,
    cause: notFound ? 'not-found' : 'not-executable',
    message: `${notFound ? 'there is no such command in the image' : 'the command cannot be executed'} (errno ${executed})`,
    ...times,
  };
}

const E2BIG = 7;

/** What the runtime says goes to its log or, of the last moment, to where the step would have written. */
function startError(layout: RunLayout, record: ContainerRecord): Error {
  const { containerId, sensitive } = record;
  const files = [
    join(containerFolder(layout, containerId), 'log'),
    join(outputFolder(layout, containerId, sensitive), 'stderr'),
  ];
  const said = files.map((file) => readIfAny(file).trim().split('\n').at(-1) ?? '');
  if (said.some((line) => /argument list too long/i.test(line))) return tooLong(record);
  const words = (said.find((line) => line !== '') ?? 'the runtime does not say why')
    .replace(/^\S+Z: /, '')
    .trim();
  return engineError(
    'ENGINE_START_FAILED',
    `container ${record.containerId} could not be started: ${words}`,
    {
      hint: '`skycap doctor` checks what the engine needs of this host',
      details: { containerId: record.containerId, image: record.image },
    },
  );
}

function tooLong(record: ContainerRecord): Error {
  return engineError(
    'ENGINE_ENV_TOO_LONG',
    `arguments and environment of ${record.containerId} together are longer than the kernel takes`,
    {
      hint: 'hand large values over as files: give the parameter or credential a `path`',
    },
  );
}

/** Kills a container and waits until its supervisor has recorded that; nothing happens if it has ended. */
export async function killContainer(layout: RunLayout, containerId: string): Promise<void> {
  const control = containerFolder(layout, containerId);
  const supervisor = recordedProcess(join(control, 'supervisor'));
  if (supervisor !== undefined) {
    for (let tries = 0; readStatus(control) === undefined && isAlive(supervisor); tries += 1) {
      if (tries % 50 === 0) signalProcess(supervisor, 'SIGUSR1');
      await pause(5);
    }
  }
  // Without a supervisor nobody else would.
  while (initAlive(control)) {
    try {
      process.kill(Number(readIfAny(join(control, 'pid'))), 'SIGKILL');
    } catch {
      break;
    }
    await pause(5);
  }
}

/**
 * Removes what an ended container left outside of its overlay; `again` says what serves the next one
 * instead.
 */
export async function removeContainer(
  layout: RunLayout,
  record: ContainerRecord,
  again?: { readonly output: OutputFolders; readonly rootServesAgain: boolean },
): Promise<void> {
  for (let tries = 0, left = record.groups; left.length > 0 && tries < 100; tries += 1) {
    left = removeGroups(left);
    // The kernel takes a moment to see that a killed group is empty.
    if (left.length > 0) await pause(5);
  }
  const { containerId } = record;
  rmSync(containerFolder(layout, containerId), { recursive: true, force: true });
  const output = join(layout.output, containerId);
  if (again === undefined || record.sensitive) rmSync(output, { recursive: true, force: true });
  else again.output.giveBack(output);
  // The shell of a kept container mounts them.
  if (!again?.rootServesAgain && !existsSync(join(layout.kept, containerId)))
    rmSync(outputsFolder(layout, record.overlay), { recursive: true, force: true });
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export function readJson<T>(path: string): T | undefined {
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as T) : undefined;
}
