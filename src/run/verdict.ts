import { compilePattern } from '../document/pattern/index.ts';
import type { ContainerExit } from '../engine/index.ts';
import type { SkycapError } from '../kernel/index.ts';
import type { PlanStep } from '../plan/index.ts';
import { runError } from './errors.ts';

/** What to do after a cancellation. */
export const resumeHint = 'go on where it was cancelled with --resume';

/** The error that an attempt ended with; undefined if it succeeded. */
export function failureOf(step: PlanStep, exit: ContainerExit): SkycapError | undefined {
  const details = { step: step.id, exitCode: exit.exitCode, cause: exit.cause };
  switch (exit.cause) {
    case 'exited':
      if (exit.exitCode === 0) return undefined;
      return runError('STEP_FAILED', `step ${step.id} ended with exit code ${exit.exitCode}`, {
        details,
        hint: 'read its output above; --keep keeps its container for a look inside',
      });
    case 'timeout':
      return runError(
        'STEP_TIMEOUT',
        `step ${step.id} ran longer than its timeout of ${inWords(step.timeoutMs ?? 0)} and was stopped`,
        { details, hint: 'raise its timeout, or find out what it waits for' },
      );
    case 'oom':
      return runError('STEP_OUT_OF_MEMORY', `step ${step.id} was ended by the kernel: out of memory`, {
        details,
        hint: 'raise resources.memory of its image',
      });
    case 'not-found':
      return runError(
        'STEP_NOT_FOUND',
        `step ${step.id}: ${exit.message ?? 'its program is not in the image'}: ${programOf(step)} in ${step.image}`,
        {
          details,
          hint: 'name a program that the image has (a script needs its interpreter there too), or choose another image',
        },
      );
    case 'not-executable':
      return runError(
        'STEP_NOT_EXECUTABLE',
        `step ${step.id}: ${exit.message ?? 'its program cannot be executed'}: ${programOf(step)} in ${step.image}`,
        { details, hint: 'make it executable, or start it by its interpreter' },
      );
    case 'cancelled':
      return runError('RUN_CANCELLED', `step ${step.id} was cancelled`, {
        details,
        hint: resumeHint,
      });
    case 'unknown':
      return runError('STEP_UNKNOWN', `nothing tells how step ${step.id} ended${because(exit)}`, {
        details,
        hint: `look at what it changed, then go on with --resume --rerun ${step.id}`,
      });
  }
}

/** As the plan has it: an expression that only the run could evaluate stays one, as it may be a secret. */
function programOf({ command }: PlanStep): string {
  if (command.kind === 'script') return command.interpreter[0] ?? (command.shebang.trim() || 'its script');
  const [first] = command.argv;
  return first === undefined ? 'its command' : 'value' in first ? String(first.value) : first.template;
}

function because({ message }: ContainerExit): string {
  return message === undefined ? '' : `: ${message}`;
}

/** As it is written in a bundle. */
function inWords(ms: number): string {
  if (ms % 60_000 === 0) return `${ms / 60_000}m`;
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}

/** Whether `ignoreError` forgives this end (Porter's exec mixin: codes, or words on stderr). */
export function isIgnored(step: PlanStep, exit: ContainerExit, stderr: () => string): boolean {
  const rule = step.ignoreError;
  if (rule === undefined || exit.cause === 'cancelled' || exit.cause === 'unknown') return false;
  if (rule.all || rule.exitCodes.includes(exit.exitCode)) return true;
  if (rule.contains.length === 0 && rule.regex.length === 0) return false;
  const text = stderr();
  return (
    rule.contains.some((part) => text.includes(part)) ||
    rule.regex.some((pattern) => compilePattern(pattern).test(text))
  );
}

/** Milliseconds until the next attempt; undefined if there is none. */
export function retryDelay(step: PlanStep, exit: ContainerExit, attempt: number): number | undefined {
  const { retry } = step;
  if (retry === undefined || attempt >= retry.attempts) return undefined;
  if (exit.cause === 'cancelled' || exit.cause === 'unknown') return undefined;
  if (retry.onExit !== undefined && !retry.onExit.includes(exit.exitCode)) return undefined;
  return Math.round(retry.delayMs * retry.factor ** (attempt - 1));
}
