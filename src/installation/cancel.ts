import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { isSkycapError, kernelError } from '../kernel/index.ts';
import {
  type InstallationKey,
  type InstallationLock,
  type LiveHolder,
  type ManagedStateStore,
  type Run,
  stateError,
} from '../state/index.ts';
import { isOpen } from './rules.ts';
import { type TakeOverDeps, takeOver } from './takeover.ts';

export interface CancelDeps {
  readonly state: ManagedStateStore;
  /** To that very process; false where it is gone, or another user's. */
  readonly sendSignal: (process: Pick<LiveHolder, 'pid' | 'startTime'>, signal: NodeJS.Signals) => boolean;
  readonly emit: TakeOverDeps['emit'];
  /** Ends the waiting, not the run. */
  readonly signal: AbortSignal;
  /** Asked only where the run has to be ended without its process. */
  takeOver(): Promise<TakeOverDeps>;
}

export interface CancelOptions {
  /** Its steps get KILL at once. */
  readonly kill: boolean;
  /** Ends its process, too, and finishes what it leaves. */
  readonly force: boolean;
  /** Until the run has ended. */
  readonly wait: boolean;
}

export interface Cancelled {
  /** The process that was told to end; undefined where there was none any more. */
  readonly pid?: number;
  /** As its record is now: it still goes on where nobody waited, or where its process was killed meanwhile. */
  readonly run: Run;
}

// The kernel ends a killed process within milliseconds, but for one that waits for a broken disk.
const mostForKillMs = 10_000;

/**
 * Cancels a run from outside its process: like Ctrl-C there. A process that was stopped (Ctrl-Z, SIGSTOP) is
 * continued, as a shell's `kill` does, or it could not obey. With `force` the process is killed and this one takes its
 * place: it ends the steps, collects what they leave and closes the records.
 *
 * @throws USAGE where it has ended, or its process is gone or of another host; with `force` RUN_OTHER_ENGINE, STATE_LOCKED
 */
export async function cancelRun(run: Run, deps: CancelDeps, options: CancelOptions): Promise<Cancelled> {
  if (!isOpen(run)) throw endedAlready(run);
  if (options.force) return await endByForce(run, { deps, kill: options.kill });
  const holder = await holderOf(run, deps.state);
  // Not TERM twice: the kernel may make one of two, and where one was sent before, the third would leave the step.
  if (holder === undefined || !(await signalled(run, holder, options.kill ? 'SIGQUIT' : 'SIGTERM', deps))) {
    const last = (await deps.state.getRun(run.id)) ?? run;
    if (!isOpen(last)) throw endedAlready(last);
    throw kernelError('USAGE', `the process of run ${run.id} is gone`, {
      hint: 'run the next action: it finds out how the run ended before it starts; --force ends its steps now',
    });
  }
  if (holder.isStopped) {
    deps.sendSignal(holder, 'SIGCONT');
    deps.emit({
      type: 'notice',
      code: 'run-continued',
      message: `process ${holder.pid} of run ${run.id} was stopped; it goes on, to end the run`,
    });
  }
  if (options.wait) await untilEnded(run.id, deps);
  return { pid: holder.pid, run: (await deps.state.getRun(run.id)) ?? run };
}

/** The process that carries the run out, from the lock that it holds. */
async function holderOf(run: Run, state: ManagedStateStore): Promise<LiveHolder | undefined> {
  const holder = (await state.holders(keyOf(run))).find(({ runId }) => runId === run.id);
  if (holder === undefined || holder.host === hostname()) return holder;
  throw kernelError('USAGE', `run ${run.id} runs on ${holder.host}`, {
    hint: 'run the command there',
  });
}

/** False where the process is gone. */
async function signalled(
  run: Run,
  holder: LiveHolder,
  signal: NodeJS.Signals,
  deps: CancelDeps,
): Promise<boolean> {
  if (deps.sendSignal(holder, signal)) return true;
  if ((await holderOf(run, deps.state)) === undefined) return false;
  throw kernelError('USAGE', `process ${holder.pid} of run ${run.id} takes no signal from this user`, {
    hint: 'run the command as the user whose process it is, or as root',
  });
}

function endedAlready(run: Run): Error {
  return kernelError('USAGE', `run ${run.id} has ended already (${run.state})`, {
    hint: `see skycap run show ${run.id}`,
  });
}

/** Nothing is killed for a run that could not be closed then, as another one holds the lock, too. */
async function holderToKill(run: Run, state: ManagedStateStore): Promise<LiveHolder | undefined> {
  const holder = await holderOf(run, state);
  const other = (await state.holders(keyOf(run))).find(({ runId }) => runId !== run.id);
  if (holder === undefined || other === undefined) return holder;
  const { runId, action, host, pid } = other;
  const who = `run ${runId} (${action}) by process ${pid} on ${host}`;
  throw stateError(
    'STATE_LOCKED',
    `run ${run.id} was not ended: ${who} works on ${run.installation} at the same time`,
    {
      hint: `wait for it (skycap run logs -f ${runId}) or end it (skycap run cancel ${runId}), then run the command again; without --force the run is asked to end`,
      details: { ...keyOf(run), runId, action, host, pid },
    },
  );
}

async function endByForce(
  run: Run,
  { deps, kill }: { readonly deps: CancelDeps; readonly kill: boolean },
): Promise<Cancelled> {
  await holderToKill(run, deps.state);
  const own = await deps.takeOver();
  // Now: while the engine was reached the run may have ended, and its process, too.
  const found = await holderToKill(run, deps.state);
  const holder = found !== undefined && (await signalled(run, found, 'SIGKILL', deps)) ? found : undefined;
  await using _lock = await lockOf(run, deps);
  const now = AbortSignal.abort();
  await takeOver(keyOf(run), own, {
    runId: run.id,
    signals: { signal: now, kill: kill ? now : own.signal },
  });
  const pid = holder === undefined ? {} : { pid: holder.pid };
  return { ...pid, run: (await deps.state.getRun(run.id)) ?? run };
}

/** The kernel frees the lock once the killed process has ended, which is not at once. */
async function lockOf(run: Run, { state }: CancelDeps): Promise<InstallationLock> {
  const deadline = performance.now() + mostForKillMs;
  for (;;) {
    try {
      return await state.lock(keyOf(run), 'exclusive', { runId: run.id, action: 'cancel' });
    } catch (cause) {
      const isOwn = isSkycapError(cause, 'STATE_LOCKED') && cause.details?.runId === run.id;
      if (!isOwn || performance.now() > deadline) throw cause;
      await sleep(20);
    }
  }
}

async function untilEnded(runId: string, { state, signal }: CancelDeps): Promise<void> {
  // The log ends with the run's record, or with its process.
  for await (const _line of state.readLog(runId, { follow: true, signal })) {
    // only the end counts
  }
}

function keyOf(run: Run): InstallationKey {
  return { namespace: run.namespace, name: run.installation };
}
