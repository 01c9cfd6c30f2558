import type { Scope } from '../../document/expression/index.ts';
import type { LintContext, PlacedStep } from './context.ts';

/** Placeholder until the shell binding is there. */
export function checkCommandPlaces(_context: LintContext, _placed: PlacedStep, _scope: Scope): void {}
