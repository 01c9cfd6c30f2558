import { isOpen, loadInstallation } from '../../installation/index.ts';
import { signalProcess } from '../../kernel/system/index.ts';
import { actionDeps } from '../action/deps.ts';
import { compose } from '../compose.ts';
import type { Command } from '../types.ts';
import { findRun, processGone } from './records.ts';

export const command: Command = {
  path: 'run cancel',
  summary: 'cancel a run from another terminal',
  description:
    'Like Ctrl-C where it runs: the running steps get TERM and their grace time, then steps with `always` run. With `--kill` they are killed. A process that was stopped (Ctrl-Z) is continued, so that it can obey. Where it does not obey, or is gone, `--force` ends the run from here: kills its process, ends the running steps, collects what they leave and closes the record; where another run works on the installation at the same time, it kills nothing and fails. Steps with `always` do not run then, and `--resume` goes on as after any cancelled run.',
  arguments: [{ name: 'ID', required: true, summary: 'id of the run' }],
  flags: [
    { name: 'kill', type: 'switch', own: true, summary: 'kill the running steps at once' },
    {
      name: 'force',
      type: 'switch',
      own: true,
      summary: 'kill its process, if there is one, and end the run from here',
    },
    { name: 'no-wait', type: 'switch', summary: 'do not wait until the run has ended' },
  ],
  examples: [
    { line: 'skycap run cancel ID', does: 'cancel and wait for its end' },
    { line: 'skycap run cancel ID --force', does: 'end it although its process does not answer' },
  ],
  async run({ flags, arguments: [id] }, context) {
    await using rooms = compose(context);
    const state = await rooms.state();
    const run = await findRun(state, id as string);
    // Only the engine that runs it can end its steps.
    await using its = compose(context, { engine: run.engine });
    const force = flags.switch('force');
    const wait = force || !flags.switch('no-wait');
    const { cancelRun } = await loadInstallation();
    const { pid, run: last } = await cancelRun(
      run,
      {
        state,
        sendSignal: signalProcess,
        emit: context.emit,
        signal: context.signal,
        takeOver: () => actionDeps(its, context),
      },
      { kill: flags.switch('kill'), force, wait },
    );
    const isGone = wait && isOpen(last) && !context.signal.aborted;
    if (isGone) {
      context.emit(processGone(run.id));
    }
    await context.result({
      data: { id: run.id, ...(pid === undefined ? {} : { signalled: pid }), state: last.state },
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
