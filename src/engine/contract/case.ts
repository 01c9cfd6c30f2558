import type { CaseContext } from './context.ts';

export interface ContractCase {
  /** Stable: tables of allowed differences name it. */
  readonly id: string;
  readonly title: string;
  run(context: CaseContext): Promise<void>;
}

export function contractCase(id: string, title: string, run: ContractCase['run']): ContractCase {
  return { id, title, run };
}
