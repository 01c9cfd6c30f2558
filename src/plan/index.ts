export { type BoundStep, bind, isWorkspaceParameter } from './bind.ts';
export { checkGivenValues } from './check-values.ts';
export { planError } from './errors.ts';
export { containerPath, inputsPath, outputsPath, workspacePath } from './files.ts';
export type * from './known.ts';
export { makePlan, type PlanRequest, usedImages } from './make-plan.ts';
export type * from './types.ts';
