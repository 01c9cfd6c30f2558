import type { StepCommand, Text } from '../bundle/index.ts';
import { evaluateTreePartially, expressionError, type Scope } from '../document/expression/index.ts';
import { bindScript, checkArgv } from '../document/expression/shell/index.ts';
import type { PinnedImage } from '../oci/index.ts';
import { planError } from './errors.ts';
import { type Delimiters, toLate } from './late.ts';
import type { PlanCommand, PlanStep } from './types.ts';

/** What a step runs, from what it says and what its image says (docs/bundle.md, "Steps"). */
export function planCommand(
  command: StepCommand,
  context: {
    readonly step: string;
    readonly scope: Scope;
    readonly delimiters: Delimiters;
    readonly image: PinnedImage;
    readonly interfaceCommand: readonly string[] | undefined;
  },
): { readonly command: PlanCommand; readonly with?: NonNullable<PlanStep['with']> } {
  const { scope, delimiters, image } = context;
  const { entrypoint, cmd } = image.config;
  switch (command.kind) {
    case 'image':
      return { command: literal(context.step, context.interfaceCommand ?? [...entrypoint, ...cmd]) };
    case 'command':
      refuseEvaluated(command.argv, [], context);
      return {
        command: { kind: 'argv', argv: command.argv.map((item) => toLate(item.text, scope, delimiters)) },
      };
    case 'args': {
      refuseEvaluated(command.args, entrypoint, context);
      const own = entrypoint.map((value) => ({ value }));
      return {
        command: {
          kind: 'argv',
          argv: [...own, ...command.args.map((item) => toLate(item.text, scope, delimiters))],
        },
      };
    }
    case 'run':
      return { command: planScript(command.script.text, command.shell, context) };
    case 'with': {
      const tree = evaluateTreePartially(command.values.value, scope, { delimiters });
      const isShown = tree.state === 'value' && !tree.sensitive;
      return {
        command: literal(context.step, context.interfaceCommand ?? [...entrypoint, ...cmd]),
        with: isShown
          ? { value: tree.value }
          : { tree: tree.state === 'late' ? tree.residual : command.values.value, sensitive: tree.sensitive },
      };
    }
  }
}

/**
 * Lint says the same earlier and better, with what the lock says of the entrypoint; here it is the verified image
 * that speaks: a value never becomes text that a program evaluates.
 */
function refuseEvaluated(
  words: readonly Text[],
  entrypoint: readonly string[],
  { step, delimiters }: { readonly step: string; readonly delimiters: Delimiters },
): void {
  const argv = words.map((word) => word.text);
  const refused = checkArgv(argv, { delimiters, entrypoint }).find((one) => one.severity === 'error');
  if (refused === undefined) return;
  throw expressionError('SCRIPT_PLACE', `step ${step}: ${refused.message}`, {
    hint: 'move the value to `env:` (skycap lint --fix does it)',
  });
}

function literal(step: string, argv: readonly string[]): PlanCommand {
  if (argv.length === 0) {
    throw planError(
      'STEP_NO_COMMAND',
      `step ${step} names no command, and its image has neither entrypoint nor cmd`,
      {
        hint: 'give the step `command`, `run` or `args`',
      },
    );
  }
  return { kind: 'argv', argv: argv.map((value) => ({ value })) };
}

function planScript(
  script: string,
  shell: string | undefined,
  context: { step: string; scope: Scope; delimiters: Delimiters },
): PlanCommand {
  const bound = bindScript(script, {
    delimiters: context.delimiters,
    ...(shell === undefined ? {} : { shell }),
  });
  const refused = bound.findings.find((finding) => finding.severity === 'error');
  if (refused !== undefined) {
    throw expressionError('SCRIPT_PLACE', `step ${context.step}: ${refused.message}`, {
      hint: 'move the value to `env:` (skycap lint --fix does it)',
    });
  }
  return {
    kind: 'script',
    interpreter: bound.shebang === '' ? interpreterArgv(shell ?? 'sh', bound.interpreter) : [],
    shebang: bound.shebang,
    text: bound.body,
    bindings: bound.bindings.map(({ variable, template }) => ({
      variable,
      value: toLate(template, context.scope, context.delimiters),
    })),
  };
}

function interpreterArgv(program: string, interpreter: string): readonly string[] {
  const stopsAtErrors = ['sh', 'dash', 'bash', 'ash'].includes(interpreter);
  return stopsAtErrors ? [program, '-e'] : [program];
}
