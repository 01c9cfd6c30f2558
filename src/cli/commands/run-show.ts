import { compose } from '../compose.ts';
import { runDetailJson, runText } from '../render/run.ts';
import type { Command } from '../types.ts';
import { findRun, shownRun } from './records.ts';

export const command: Command = {
  path: 'run show',
  summary: 'show a run and its steps',
  arguments: [{ name: 'ID', required: true, summary: 'id of the run' }],
  flags: [],
  examples: [
    {
      line: "skycap run show ID -o json | jq '.steps[] | {id, state, exitCode}'",
      does: 'how each step ended',
    },
  ],
  async run({ arguments: [id] }, context) {
    await using rooms = compose(context);
    const state = await rooms.state();
    const run = await shownRun(state, await findRun(state, id as string));
    await context.result({ data: runDetailJson(run), text: () => runText(run) });
    return 0;
  },
};
