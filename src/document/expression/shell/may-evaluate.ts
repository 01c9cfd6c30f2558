import { EVALUATORS, INTERPRETERS, programName, WRAPPERS } from './program-tables.ts';

/** Programs that `evaluatedWords` treats by themselves. */
const SPECIAL = ['ssh', 'test', '[', 'printf', 'find', 'local', 'export', 'readonly', 'make', 'gmake'];
const KNOWN: ReadonlySet<string> = new Set([
  ...SPECIAL,
  ...[INTERPRETERS, WRAPPERS, EVALUATORS].flatMap((table) => Object.keys(table)),
]);

/**
 * Whether `checkArgv` could find anything in a command line: some word names a program that evaluates text, or the
 * program itself is not known. Most command lines need no more than this, and the rest of the shell is not loaded.
 */
export function mayEvaluate(argv: readonly string[]): boolean {
  return argv.some((text, i) => {
    const name = programName({ start: 0, end: 0, value: text, quoted: true, holes: [0, 0] });
    return name === undefined || KNOWN.has(name) || (i === 0 && /\$\{|\{\{/.test(text));
  });
}
