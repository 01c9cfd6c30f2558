import { join } from 'node:path';
import { discover, type EngineSurroundings, type FoundEngine, loadEngine } from '../engine/index.ts';
import type { LayoutStore } from '../oci/index.ts';
import { loadSettingsReader, type Settings } from '../settings/index.ts';
import type { Host } from './types.ts';

/**
 * The engine of `--engine` or the configuration, else the first that fits.
 *
 * @throws ENGINE_UNKNOWN for a name that is none or does not fit; ENGINE_NONE with the reason of each;
 *   SETTINGS_RUNTIME_DIRECTORY
 */
export async function chooseEngine(from: {
  readonly settings: Settings;
  readonly store: LayoutStore;
  readonly host: Host;
}): Promise<FoundEngine> {
  const { settings, store, host } = from;
  const { ensureRuntimeDirectory } = await loadSettingsReader();
  const surroundings: EngineSurroundings = {
    store,
    uid: host.uid,
    path: host.env.PATH ?? '',
    stateDirectory: join(settings.state.directory, 'engine'),
    runtimeDirectory: await ensureRuntimeDirectory(settings.runtimeDirectory, host.uid),
    cacheDirectory: settings.cacheDirectory,
    dockerSocket: () => dockerSocket(settings, host),
  };
  return settings.engine === undefined
    ? await discover(surroundings)
    : await loadEngine(settings.engine, surroundings);
}

export async function dockerSocket(settings: Settings, host: Host): Promise<string> {
  const { dockerEndpoint } = await import('../engine/docker/index.ts');
  const home = host.env.HOME;
  const configDirectory = host.env.DOCKER_CONFIG ?? (home === undefined ? undefined : join(home, '.docker'));
  const { socketPath } = await dockerEndpoint({
    ...(settings.dockerHost === undefined ? {} : { host: settings.dockerHost }),
    ...(host.env.DOCKER_CONTEXT === undefined ? {} : { context: host.env.DOCKER_CONTEXT }),
    ...(configDirectory === undefined ? {} : { configDirectory }),
  });
  return socketPath;
}
