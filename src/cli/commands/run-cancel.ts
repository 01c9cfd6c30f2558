import { hostname } from 'node:os';
import { isSkycapError } from '../../kernel/index.ts';
import type { InstallationKey, ManagedStateStore, Run } from '../../state/index.ts';
import { compose } from '../compose.ts';
import { usage } from '../errors.ts';
import type { Command } from '../types.ts';
import { findRun, isOpen, processGone } from './records.ts';

export const command: Command = {
  path: 'run cancel',
  summary: 'cancel a run from another terminal',
  description:
    'Like Ctrl-C where it runs: the running steps get TERM and their grace time, then steps with `always` run. With `--kill` they are killed.',
  arguments: [{ name: 'ID', required: true, summary: 'id of the run' }],
  flags: [
    { name: 'kill', type: 'switch', own: true, summary: 'kill the running steps at once' },
    { name: 'no-wait', type: 'switch', summary: 'do not wait until the run has ended' },
  ],
  examples: [{ line: 'skycap run cancel ID', does: 'cancel and wait for its end' }],
  async run({ flags, arguments: [id] }, context) {
    await using rooms = compose(context);
    const state = await rooms.state();
    const run = await findRun(state, id as string);
    const kill = flags.switch('kill');
    const wait = !flags.switch('no-wait');
    if (!isOpen(run)) {
      throw usage(`run ${run.id} has ended already (${run.state})`, `see skycap run show ${run.id}`);
    }
    const pid = await holderOf(state, { namespace: run.namespace, name: run.installation }, run.id);
    // Not TERM twice: the kernel may make one of two, and where one was sent before, the third would leave the step.
    context.host.signal(pid, kill ? 'SIGQUIT' : 'SIGTERM');
    const last = wait ? await endOf(state, run.id, context.signal) : run;
    const isGone = wait && isOpen(last) && !context.signal.aborted;
    if (isGone) {
      context.emit(processGone(run.id));
    }
    await context.result({
      data: { id: run.id, signalled: pid, state: last.state },
      text: () =>
        !wait
          ? `asked run ${run.id} to end\n`
          : isGone
            ? `nothing tells yet how run ${run.id} ended\n`
            : `run ${run.id} ended: ${last.state}\n`,
    });
    return 0;
  },
};

/** The process that carries the run out, from the lock that it holds. */
async function holderOf(state: ManagedStateStore, key: InstallationKey, runId: string): Promise<number> {
  try {
    await (await state.lock(key, 'exclusive', { runId: '', action: 'cancel' }))[Symbol.asyncDispose]();
  } catch (error) {
    if (!isSkycapError(error, 'STATE_LOCKED')) {
      throw error;
    }
    const {
      pid,
      host,
      runId: holder,
    } = (error.details ?? {}) as { pid?: number; host?: string; runId?: string };
    if (holder === runId && host === hostname() && pid !== undefined) {
      return pid;
    }
    if (holder === runId) {
      throw usage(`run ${runId} runs on ${host}`, 'run the command there');
    }
    throw usage(`the process of run ${runId} cannot be told: ${error.message}`, 'end it where it runs');
  }
  throw usage(
    `the process of run ${runId} is gone`,
    'run the next action: it finds out how the run ended before it starts',
  );
}

async function endOf(state: ManagedStateStore, runId: string, signal: AbortSignal): Promise<Run> {
  // The log ends with the run's record.
  for await (const _line of state.readLog(runId, { follow: true, signal })) {
    // only the end counts
  }
  return await findRun(state, runId);
}
