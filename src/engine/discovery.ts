import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isSkycapError, type SkycapError } from '../kernel/index.ts';
import type { Store } from '../oci/index.ts';
import { DOCKER_GAPS } from './docker/gaps.ts';
import { engineError } from './errors.ts';
import { OCI_RUNTIME_GAPS } from './oci-runtime/gaps.ts';
import type { Engine } from './port.ts';

/** What discovery may look at and engines are made of; handed in by whoever composes. */
export interface EngineSurroundings {
  readonly store: Store;
  /** Effective user id. */
  readonly uid: number;
  /** Value of PATH; relative entries are not used. */
  readonly path: string;
  /** For the embedded engine, on disk: made 0700. */
  readonly stateDirectory: string;
  /** On a tmpfs. Each engine has a folder of its own below it. */
  readonly runtimeDirectory: string;
  /** On disk, for what can be made again. */
  readonly cacheDirectory: string;
  /** Of the Docker daemon, asked when needed: `dockerEndpoint` can fail. Left out: /var/run/docker.sock. */
  readonly dockerSocket?: string | (() => Promise<string>);
}

export type Fit =
  /** `detail` says what was found: a path, a version. */
  | { readonly fits: true; readonly detail: string; readonly limits: readonly string[] }
  /** `hint` is what to do, with the install line. */
  | {
      readonly fits: false;
      readonly reason: string;
      readonly hint: string;
      /** What was found out, where it has a code of its own. */
      readonly error?: SkycapError;
    };

/** One way to run containers. A further engine is a further entry of `engineStrategies` and nothing else. */
export interface EngineStrategy {
  readonly name: string;
  readonly aliases: readonly string[];
  /** What it does not keep of docs/security.md, whatever the host. */
  readonly gaps: readonly string[];
  probe(surroundings: EngineSurroundings): Promise<Fit>;
  make(surroundings: EngineSurroundings): Promise<Engine & Partial<AsyncDisposable>>;
}

export interface FoundEngine {
  readonly engine: Engine & Partial<AsyncDisposable>;
  readonly name: string;
  /** Why this one, for the first event. */
  readonly because: string;
  /** What it cannot do on this host, with the install line, e.g. networks. */
  readonly limits: readonly string[];
}

const DEFAULT_SOCKET = '/var/run/docker.sock';

const crun: EngineStrategy = {
  name: 'crun',
  aliases: ['oci-runtime', 'embedded'],
  gaps: OCI_RUNTIME_GAPS,
  async probe(surroundings) {
    const path = findProgram('crun', surroundings.path);
    if (process.platform !== 'linux') return misfit('it needs Linux', 'use Docker');
    if (process.arch !== 'x64' && process.arch !== 'arm64')
      return misfit(`it does not know ${process.arch}`, 'use Docker');
    if (path === undefined)
      return misfit('crun is not installed', 'apt-get install crun slirp4netns iproute2');
    if (surroundings.uid !== 0) return misfit('it needs root for now', 'run as root, or use Docker');
    const namespaces = readNumber('/proc/sys/user/max_user_namespaces');
    if (namespaces === 0 || !existsSync('/proc/self/ns/user')) {
      return misfit('user namespaces are switched off', 'sysctl -w user.max_user_namespaces=15000');
    }
    for (const program of ['unshare', 'mount', 'sh']) {
      if (findProgram(program, surroundings.path) === undefined) {
        return misfit(`${program} is not installed`, 'apt-get install util-linux mount');
      }
    }
    return { fits: true, detail: path, limits: networkLimits(surroundings.path) };
  },
  async make(surroundings) {
    const { createOciRuntimeEngine } = await import('./oci-runtime/index.ts');
    return createOciRuntimeEngine({
      store: surroundings.store,
      runtime: findProgram('crun', surroundings.path) ?? 'crun',
      stateDirectory: surroundings.stateDirectory,
      runtimeDirectory: join(surroundings.runtimeDirectory, 'crun'),
      // A step that wants it is refused by its consent or finds no daemon; all others do without.
      dockerSocket: await dockerSocket(surroundings).catch(() => DEFAULT_SOCKET),
    });
  },
};

const docker: EngineStrategy = {
  name: 'docker',
  aliases: [],
  gaps: DOCKER_GAPS,
  async probe(surroundings) {
    let socket: string;
    try {
      socket = await dockerSocket(surroundings);
    } catch (cause) {
      if (!isSkycapError(cause)) throw cause;
      return { ...misfit(cause.message, cause.hint ?? 'unset DOCKER_HOST and DOCKER_CONTEXT'), error: cause };
    }
    const { probeDocker } = await import('./docker/index.ts');
    const probe = await probeDocker(socket);
    return probe.fits ? { fits: true, detail: `${socket}, Docker ${probe.version}`, limits: [] } : probe;
  },
  async make(surroundings) {
    const { createDockerEngine } = await import('./docker/index.ts');
    return await createDockerEngine({
      store: surroundings.store,
      socketPath: await dockerSocket(surroundings),
      runtimeDirectory: surroundings.runtimeDirectory,
      workDirectory: surroundings.cacheDirectory,
      uid: surroundings.uid,
    });
  },
};

async function dockerSocket({ dockerSocket }: EngineSurroundings): Promise<string> {
  if (typeof dockerSocket === 'function') return await dockerSocket();
  return dockerSocket ?? DEFAULT_SOCKET;
}

/** In the order in which they are tried. */
export const engineStrategies: readonly EngineStrategy[] = [crun, docker];

/**
 * The engine that was asked for, else the first that fits.
 *
 * @throws ENGINE_UNKNOWN for a name that is none or does not fit; ENGINE_NONE with the reason and the install line of
 *   each when none fits
 */
export async function discoverEngine(
  surroundings: EngineSurroundings,
  preferred?: string,
  strategies: readonly EngineStrategy[] = engineStrategies,
): Promise<FoundEngine> {
  if (preferred !== undefined) return await named(surroundings, preferred, strategies);
  const misfits: { readonly name: string; readonly reason: string; readonly hint: string }[] = [];
  for (const strategy of strategies) {
    const fit = await strategy.probe(surroundings);
    if (!fit.fits) {
      misfits.push({ name: strategy.name, reason: fit.reason, hint: fit.hint });
      continue;
    }
    const before = misfits.map((one) => `; ${one.name}: ${one.reason}`).join('');
    return await found(strategy, surroundings, {
      fit,
      because: `the first that fits (${fit.detail})${before}`,
    });
  }
  throw engineError(
    'ENGINE_NONE',
    `no engine can run steps here; ${misfits.map((one) => `${one.name}: ${one.reason}`).join('; ')}`,
    {
      hint: misfits.map((one) => `for ${one.name}: ${one.hint}`).join('; or '),
      details: { engines: misfits },
    },
  );
}

async function named(
  surroundings: EngineSurroundings,
  preferred: string,
  strategies: readonly EngineStrategy[],
): Promise<FoundEngine> {
  const strategy = strategies.find((one) => one.name === preferred || one.aliases.includes(preferred));
  if (strategy === undefined) {
    throw engineError('ENGINE_UNKNOWN', `there is no engine ${JSON.stringify(preferred)}`, {
      hint: `use ${strategies.map((one) => one.name).join(' or ')}`,
    });
  }
  const fit = await strategy.probe(surroundings);
  if (fit.fits) return await found(strategy, surroundings, { fit, because: `asked for (${fit.detail})` });
  if (fit.error !== undefined) throw fit.error;
  throw engineError('ENGINE_UNKNOWN', `engine ${strategy.name} does not fit this host: ${fit.reason}`, {
    hint: fit.hint,
  });
}

async function found(
  strategy: EngineStrategy,
  surroundings: EngineSurroundings,
  chosen: { readonly fit: Fit & { readonly fits: true }; readonly because: string },
): Promise<FoundEngine> {
  const engine = await strategy.make(surroundings);
  return { engine, name: strategy.name, because: chosen.because, limits: chosen.fit.limits };
}

function networkLimits(path: string): readonly string[] {
  const missing = (['slirp4netns', 'ip', 'nsenter'] as const).filter(
    (name) => findProgram(name, path) === undefined,
  );
  if (!existsSync('/dev/net/tun')) return ['steps have no network: /dev/net/tun is missing (modprobe tun)'];
  if (missing.length === 0) return [];
  return [
    `steps have no network: ${missing.join(', ')} missing (apt-get install slirp4netns iproute2 util-linux)`,
  ];
}

function misfit(reason: string, hint: string): Fit {
  return { fits: false, reason, hint };
}

function readNumber(file: string): number | undefined {
  try {
    return Number(readFileSync(file, 'utf8').trim());
  } catch {
    return undefined;
  }
}

/** Absolute path of a program; never one of the working folder. */
function findProgram(name: string, path: string): string | undefined {
  const folders = [
    ...path.split(':').filter((folder) => folder.startsWith('/')),
    '/usr/sbin',
    '/usr/bin',
    '/sbin',
    '/bin',
  ];
  return folders
    .map((folder) => join(folder, name))
    .find((candidate) => {
      try {
        accessSync(candidate, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}
