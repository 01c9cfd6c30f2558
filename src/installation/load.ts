export { loadBundleSource } from './bundle-source.ts';
export { deleteInstallation, pruneRuns } from './cleanup.ts';
export { lockBundle } from './ensure-lock.ts';
export { runAction } from './run-action.ts';
export { takeOver } from './takeover.ts';
