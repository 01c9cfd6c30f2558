export { carriedOutputs, mergeCarried } from './collect.ts';
export { executePlan } from './execute.ts';
export { finishInterrupted } from './takeover.ts';
