import { didYouMean } from '../../document/index.ts';
import { escapeTerminal } from '../../kernel/index.ts';
import { stateError } from '../../state/index.ts';
import { compose } from '../compose.ts';
import { outputFlag } from '../parse/globals.ts';
import { binaryCell } from '../render/binary.ts';
import { openOutputJson } from '../render/run.ts';
import type { Command } from '../types.ts';
import { installationFlag, installationName, namespaceFlag, runFlag } from './common.ts';
import { findInstallation, findRun } from './records.ts';

export const command: Command = {
  path: 'output show',
  summary: 'print the value of an output',
  description:
    'The exact bytes, sensitive or not; as JSON or YAML, binary values in base64 with `encoding` saying so. On a terminal controls are escaped, and of a binary value the size is told.',
  arguments: [{ name: 'NAME', required: true, summary: 'name of the output' }],
  flags: [
    namespaceFlag,
    installationFlag,
    runFlag,
    {
      ...outputFlag,
      // Its text is what scripts redirect to files: a variable for all commands must not change it.
      own: true,
      summary: 'format of the result on stdout; text is the value itself',
    },
  ],
  examples: [
    { line: 'skycap output show kubeconfig -i my-app > kubeconfig', does: 'keep a value in a file' },
  ],
  async run({ flags, arguments: [name] }, context) {
    const wanted = flags.string('namespace');
    await using rooms = compose(context, wanted === undefined ? {} : { namespace: wanted });
    const state = await rooms.state();
    const runId = flags.string('run');
    const given = flags.string('installation');
    const outputs =
      runId !== undefined
        ? await state.runOutputs((await findRun(state, runId)).id)
        : await state.latestOutputs(
            (
              await findInstallation(state, {
                namespace: await rooms.namespace(),
                name: await installationName(given, context),
              })
            ).id,
          );
    const output = outputs.find((candidate) => candidate.name === name);
    if (output === undefined) {
      const near = didYouMean(
        name as string,
        outputs.map((candidate) => candidate.name),
      );
      throw stateError('STATE_NOT_FOUND', `there is no output ${name}`, {
        hint: near === undefined ? 'run skycap output list to see them' : `did you mean ${near}?`,
      });
    }
    if (context.format !== 'text') {
      await context.result({ data: openOutputJson(output), text: () => '' });
      return 0;
    }
    if (!context.host.stdout.isTerminal) {
      context.bytes(output.value);
      return 0;
    }
    if (output.contentType === 'binary') {
      context.bytes(`${binaryCell(output.name, output.value.byteLength)}\n`);
      return 0;
    }
    const text = escapeTerminal(Buffer.from(output.value).toString('utf8'));
    context.bytes(text.endsWith('\n') ? text : `${text}\n`);
    return 0;
  },
};
