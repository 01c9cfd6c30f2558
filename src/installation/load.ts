export { loadBundleSource } from './bundle-source.ts';
export { lockBundle } from './ensure-lock.ts';
export { deleteInstallation, pruneRuns } from './records.ts';
export { runAction } from './run-action.ts';
export { takeOver } from './takeover.ts';
