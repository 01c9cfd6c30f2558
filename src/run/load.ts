export { executePlan } from './execute.ts';
export { finishInterrupted } from './takeover.ts';
