import type { TextEdit } from '../../types.ts';
import type { Template } from '../types.ts';
import type { ScriptSource } from './bind.ts';
import type { ScriptInterpreter } from './shebang.ts';
import type { Hole } from './types.ts';

export interface FixInput {
  readonly script: string;
  readonly template: Template;
  readonly source: ScriptSource;
  readonly holes: readonly Hole[];
  readonly interpreter: ScriptInterpreter;
  readonly env: Readonly<Record<string, string>>;
}
export function fixScript(
  _input: FixInput,
):
  | {
      readonly edits: readonly TextEdit[];
      readonly addEnv: Record<string, string>;
      readonly fixed: ReadonlySet<number>;
    }
  | undefined {
  return undefined;
}
