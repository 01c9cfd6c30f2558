import type { EngineSurroundings, FoundEngine } from './discovery.ts';

export type { EngineStrategy, EngineSurroundings, Fit, FoundEngine } from './discovery.ts';
export { engineError } from './errors.ts';
export type * from './port.ts';

/** The first engine that fits this host, and why. @see discovery.ts, also for what is thrown */
export async function discover(surroundings: EngineSurroundings): Promise<FoundEngine> {
  return await (await import('./discovery.ts')).discoverEngine(surroundings);
}

/** The named engine: `crun`, `docker`. @see discovery.ts, also for what is thrown */
export async function loadEngine(name: string, surroundings: EngineSurroundings): Promise<FoundEngine> {
  return await (await import('./discovery.ts')).discoverEngine(surroundings, name);
}

/** Every strategy, for `doctor`. */
export async function loadDiscovery(): Promise<typeof import('./discovery.ts')> {
  return await import('./discovery.ts');
}
