import { isOpen } from '../../installation/index.ts';
import type { Event } from '../../kernel/index.ts';
import { compose } from '../compose.ts';
import { eventLines } from '../render/event-text.ts';
import { LineBuffer } from '../render/lines.ts';
import type { Command } from '../types.ts';
import { installationFlag, installationName, namespaceFlag, runFlag } from './common.ts';
import { findRun, lastRunOf, processGone } from './records.ts';

export const command: Command = {
  path: 'run logs',
  summary: 'print the log of a run',
  description:
    'The log holds what the steps wrote, with sensitive values masked, and what happened to them. Without a run it is the last one of the installation.',
  onInterrupt: 'no longer watching; the run is not cancelled',
  arguments: [{ name: 'ID', required: false, summary: 'id of the run' }],
  flags: [
    namespaceFlag,
    installationFlag,
    runFlag,
    { name: 'follow', short: 'f', type: 'switch', summary: 'go on until the run has ended' },
    {
      name: 'output',
      short: 'o',
      type: 'string',
      value: 'FORMAT',
      choices: ['text', 'json', 'plaintext'],
      default: 'text',
      summary: 'json is one event a line',
    },
  ],
  examples: [
    { line: 'skycap run logs -i my-app -f', does: 'watch the run of another terminal' },
    { line: 'skycap logs -i my-app', does: "Porter's spelling" },
  ],
  async run({ flags, arguments: [given] }, context) {
    const wanted = flags.string('namespace');
    await using rooms = compose(context, wanted === undefined ? {} : { namespace: wanted });
    const state = await rooms.state();
    const id = given ?? flags.string('run');
    const installation = flags.string('installation');
    const run =
      id === undefined
        ? await lastRunOf(state, {
            namespace: await rooms.namespace(),
            name: await installationName(installation, context),
          })
        : await findRun(state, id);
    const isJson = flags.string('output') === 'json';
    const buffer = new LineBuffer();
    const { stdout } = context.host;
    const signal = AbortSignal.any([context.signal, stdout.broken]);
    for await (const line of state.readLog(run.id, { follow: flags.switch('follow'), signal })) {
      const text = line.endsWith('\n') ? line.slice(0, -1) : line;
      if (text !== '') {
        stdout.write(isJson ? `${text}\n` : logText(text, buffer, context.style));
      }
    }
    if (context.signal.aborted) {
      return 130;
    }
    if (flags.switch('follow') && !stdout.broken.aborted && isOpen(await findRun(state, run.id))) {
      context.emit(processGone(run.id));
    }
    return 0;
  },
};

function logText(line: string, buffer: LineBuffer, style: { readonly color: boolean }): string {
  let event: Event;
  try {
    event = JSON.parse(line) as Event;
  } catch {
    // Cut short by a crash.
    event = { type: 'log.damaged', text: line } as Event & { text: string };
  }
  const { time: _time, ...rest } = event as Event & { time?: string };
  return eventLines(rest as Event, buffer, style)
    .filter((l) => l.level !== 'debug')
    .map((l) => `${l.text}\n`)
    .join('');
}
