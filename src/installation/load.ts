export { loadBundleSource } from './bundle-source.ts';
export { cancelRun } from './cancel.ts';
export { deleteInstallation } from './cleanup.ts';
export { lockBundle } from './ensure-lock.ts';
export { pruneRuns } from './prune.ts';
export { runAction } from './run-action.ts';
export { takeOver } from './takeover.ts';
