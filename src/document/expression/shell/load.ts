export { type ArgvFinding, checkArgv } from './argv.ts';
export {
  type Binding,
  type BindOptions,
  type BoundScript,
  bindScript,
  type ScriptFinding,
  type ScriptFix,
} from './bind.ts';
export { quoteForShell, renderPrologue } from './prologue.ts';
export { type ScriptInterpreter, shellOf } from './shebang.ts';
export type { Shell } from './types.ts';
