import { constants } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { didYouMean } from '../document/index.ts';
import type { Engine } from '../engine/index.ts';
import { type ErrorExtras, SkycapError } from '../kernel/index.ts';
import type { LayoutStore } from '../oci/index.ts';
import type { Settings } from '../settings/index.ts';
import type { Host } from './types.ts';

export interface EngineSurroundings {
  readonly settings: Settings;
  readonly store: LayoutStore;
  readonly host: Host;
}

export interface ChosenEngine {
  readonly engine: Engine;
  /** For the first event. */
  readonly because: string;
  dispose(): Promise<void>;
}

type Fit =
  | { readonly fits: true; readonly detail: string }
  | { readonly fits: false; readonly reason: string; readonly hint: string };

/** One way to run containers: its names, whether it fits this host, and how it is made. */
interface Strategy {
  readonly names: readonly string[];
  fits(surroundings: EngineSurroundings): Promise<Fit>;
  make(surroundings: EngineSurroundings): Promise<Engine & Partial<AsyncDisposable>>;
}

/** In the order in which they are tried. */
const strategies: readonly Strategy[] = [
  {
    names: ['crun', 'oci-runtime'],
    async fits({ host }) {
      const path = await findProgram('crun', host);
      if (host.uid !== 0) {
        return { fits: false, reason: 'it needs root here', hint: 'run as root, or use Docker' };
      }
      if (path === undefined) {
        return { fits: false, reason: 'crun is not installed', hint: 'apt-get install crun' };
      }
      const most = Number(
        (await readFile('/proc/sys/user/max_user_namespaces', 'utf8').catch(() => '0')).trim(),
      );
      return most > 0
        ? { fits: true, detail: path }
        : {
            fits: false,
            reason: 'user namespaces are switched off',
            hint: 'sysctl -w user.max_user_namespaces=15000',
          };
    },
    async make({ settings, store, host }) {
      const { createOciRuntimeEngine } = await import('../engine/oci-runtime/index.ts');
      return createOciRuntimeEngine({
        store,
        runtime: (await findProgram('crun', host)) ?? 'crun',
        stateDirectory: join(settings.state.directory, 'engine'),
        // Beside and not below the private one: the users of containers must be able to reach their roots.
        runtimeDirectory: `${settings.runtimeDirectory}-crun`,
        ...(settings.dockerHost?.startsWith('unix://') === true
          ? { dockerSocket: settings.dockerHost.slice('unix://'.length) }
          : {}),
      });
    },
  },
  {
    names: ['docker'],
    async fits({ settings, host }) {
      const { probeDocker } = await import('../engine/docker/index.ts');
      const { socketPath } = await dockerSocket(settings, host);
      const probe = await probeDocker(socketPath);
      return probe.fits ? { fits: true, detail: `${socketPath}, Docker ${probe.version}` } : probe;
    },
    async make({ settings, store, host }) {
      const { createDockerEngine } = await import('../engine/docker/index.ts');
      const { ensureRuntimeDirectory } = await (await import('../settings/index.ts')).loadSettingsReader();
      const { socketPath } = await dockerSocket(settings, host);
      return await createDockerEngine({
        store,
        socketPath,
        runtimeDirectory: await ensureRuntimeDirectory(settings.runtimeDirectory, host.uid),
        workDirectory: join(settings.cacheDirectory, 'docker'),
        uid: host.uid,
      });
    },
  },
];

/**
 * The engine of `--engine` or the configuration, else the first that fits.
 * @throws ENGINE_UNKNOWN for a name that is none or does not fit; ENGINE_NONE with the reason of each
 */
export async function chooseEngine(surroundings: EngineSurroundings): Promise<ChosenEngine> {
  const { engine: wanted } = surroundings.settings;
  if (wanted !== undefined) {
    return await namedEngine(wanted, surroundings);
  }
  const reasons: string[] = [];
  const hints: string[] = [];
  for (const strategy of strategies) {
    const [name = ''] = strategy.names;
    const fit = await strategy.fits(surroundings);
    if (fit.fits) {
      return await chosen(strategy, surroundings, `${name} fits (${fit.detail})`);
    }
    reasons.push(`${name}: ${fit.reason}`);
    hints.push(`for ${name}: ${fit.hint}`);
  }
  throw engineError('ENGINE_NONE', `no engine can run steps here; ${reasons.join('; ')}`, {
    hint: hints.join('; or '),
    details: { reasons },
  });
}

async function namedEngine(wanted: string, surroundings: EngineSurroundings): Promise<ChosenEngine> {
  const strategy = strategies.find(({ names }) => names.includes(wanted));
  if (strategy === undefined) {
    const names = strategies.flatMap((other) => other.names);
    const near = didYouMean(wanted, names);
    throw engineError('ENGINE_UNKNOWN', `there is no engine ${JSON.stringify(wanted)}`, {
      hint: near === undefined ? `use ${names.join(' or ')}` : `did you mean ${near}?`,
    });
  }
  const fit = await strategy.fits(surroundings);
  if (!fit.fits) {
    throw engineError('ENGINE_UNKNOWN', `engine ${wanted} does not fit this host: ${fit.reason}`, {
      hint: fit.hint,
    });
  }
  return await chosen(strategy, surroundings, `${wanted} was asked for`);
}

async function chosen(
  strategy: Strategy,
  surroundings: EngineSurroundings,
  because: string,
): Promise<ChosenEngine> {
  const engine = await strategy.make(surroundings);
  return { engine, because, dispose: async () => await engine[Symbol.asyncDispose]?.() };
}

async function dockerSocket(settings: Settings, host: Host): Promise<{ readonly socketPath: string }> {
  const { dockerEndpoint } = await import('../engine/docker/index.ts');
  const home = host.env.HOME;
  const configDirectory = host.env.DOCKER_CONFIG ?? (home === undefined ? undefined : join(home, '.docker'));
  return await dockerEndpoint({
    ...(settings.dockerHost === undefined ? {} : { host: settings.dockerHost }),
    ...(host.env.DOCKER_CONTEXT === undefined ? {} : { context: host.env.DOCKER_CONTEXT }),
    ...(configDirectory === undefined ? {} : { configDirectory }),
  });
}

function engineError(
  code: 'ENGINE_NONE' | 'ENGINE_UNKNOWN',
  message: string,
  extras: ErrorExtras,
): SkycapError {
  return new SkycapError(code, 40, message, extras);
}

/** Absolute path of a program; never one of the working folder. */
async function findProgram(name: string, host: Host): Promise<string | undefined> {
  const folders = [...(host.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/bin'];
  for (const folder of folders.filter((path) => path.startsWith('/'))) {
    const path = join(folder, name);
    if (
      await access(path, constants.X_OK).then(
        () => true,
        () => false,
      )
    ) {
      return path;
    }
  }
  return undefined;
}
