export { checkTemplate } from './check.ts';
export { expressionError } from './errors.ts';
export { evaluate, evaluateCondition, evaluatePartially } from './evaluate.ts';
export { FUNCTION_NAMES } from './function-names.ts';
export { printTemplate } from './print.ts';
export { pathText, references, referencesOf } from './references.ts';
export { absent, denied, late, names, ROOTS, secret, value } from './scope.ts';
export type { ArgvFinding } from './shell/argv.ts';
export type { Binding, BindOptions, BoundScript, ScriptFinding, ScriptFix } from './shell/bind.ts';
export { mayEvaluate } from './shell/may-evaluate.ts';
export { quoteForShell, renderPrologue } from './shell/prologue.ts';
export type { ScriptInterpreter } from './shell/shebang.ts';
export { canonicalJson, stringify } from './stringify.ts';
export { isPlainText, parseCondition, parseTemplate } from './template.ts';
export {
  type Argument,
  checkBytes,
  checkProcessString,
  evaluateTree,
  evaluateTreePartially,
  expandArgv,
  type LateTree,
  LONGEST_ARGUMENT,
} from './tree.ts';
export type * from './types.ts';

/**
 * Loads what reads scripts: `bindScript`, `renderPrologue`, `checkArgv`, `shellOf`, `quoteForShell`. Only bundles
 * with expressions in scripts or command lines need it.
 */
export function loadShell(): Promise<typeof import('./shell/load.ts')> {
  return import('./shell/load.ts');
}
