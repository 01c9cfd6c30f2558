export type { LoadedBundle } from './bundle-source.ts';
export { installationError } from './errors.ts';
export type { ParameterInput } from './parameters.ts';
export { checkName, isInstalled, isOpen } from './rules.ts';
export type * from './types.ts';

/** Loads what carries out actions: `runAction`, `cancelRun`, `lockBundle`, `loadBundleSource`, `deleteInstallation`. */
export async function loadInstallation(): Promise<typeof import('./load.ts')> {
  return import('./load.ts');
}
