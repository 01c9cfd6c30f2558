import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type LayoutStore, loadStore } from '../../src/oci/index.ts';
import { loadRegistryServer } from '../../src/oci/registry/index.ts';
import { type MakeImageOptions, makeImage } from '../../src/testkit/images/index.ts';
import type { EngineName } from './engines.ts';

const root = join(import.meta.dirname, '../..');
export const program = join(root, 'bin/skycap');

/**
 * A machine of its own for one test file: folders for configuration, state, store and secrets, and a registry with
 * tool images. Everything goes when it is disposed.
 */
export interface World extends AsyncDisposable {
  readonly directory: string;
  readonly env: Readonly<Record<string, string>>;
  /** `127.0.0.1:PORT` of the registry. */
  readonly registry: string;
  /** What the registry holds. */
  readonly images: LayoutStore;
  /** Every request that the registry got. */
  readonly requests: readonly { readonly method: string; readonly path: string }[];
  /** Puts an image into the registry and gives its reference there. Default: busybox. */
  image(name: string, options?: Omit<MakeImageOptions, 'reference'>): Promise<string>;
  /** A bundle folder; `files` by path, porter.yaml among them. */
  bundle(files: Readonly<Record<string, string | Uint8Array>>): string;
  skycap(args: readonly string[], options?: RunOptions): Promise<Ran>;
  /** The same, running; end it by `kill`. */
  start(args: readonly string[], options?: RunOptions): Running;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** A command line that the program's is appended to, e.g. `unshare --net`. */
  readonly within?: readonly string[];
}

export interface Ran {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Events, where the command ran with `--progress json`. */
  readonly events: readonly Record<string, unknown>[];
  /** Parsed stdout. */
  json<T = Record<string, unknown>>(): T;
}

export interface Running {
  readonly process: ChildProcess;
  readonly ended: Promise<Ran>;
  /** Resolves when stderr or stdout has this text. */
  said(text: string | RegExp): Promise<void>;
}

export async function makeWorld(engine: EngineName): Promise<World> {
  const directory = mkdtempSync(join(tmpdir(), 'skycap-world-'));
  const runtime = mkdtempSync('/dev/shm/skycap-world-');
  const { openStore } = await loadStore();
  const images = await openStore({ directory: join(directory, 'registry') });
  const requests: { method: string; path: string }[] = [];
  const { serveRegistry } = await loadRegistryServer();
  const server = await serveRegistry({
    store: images,
    port: 0,
    writable: true,
    onRequest: ({ method, path }) => void requests.push({ method, path }),
  });
  const folder = (name: string): string => {
    mkdirSync(join(directory, name), { recursive: true, mode: 0o700 });
    return join(directory, name);
  };
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: folder('home'),
    LANG: 'C.UTF-8',
    XDG_CONFIG_HOME: folder('config'),
    XDG_DATA_HOME: folder('data'),
    XDG_STATE_HOME: folder('state'),
    XDG_CACHE_HOME: folder('cache'),
    XDG_RUNTIME_DIR: runtime,
    SKYCAP_ENGINE: engine,
    TMPDIR: folder('tmp'),
  };
  const start = (args: readonly string[], options: RunOptions = {}): Running =>
    startProgram(args, options, env);
  return {
    directory,
    env,
    registry: server.host,
    images,
    requests,
    async image(name, options = { busybox: true }) {
      const reference = `${server.host}/${name.includes(':') ? name : `${name}:latest`}`;
      await makeImage(images, { ...options, reference: `localhost/${name}` });
      return reference;
    },
    bundle(files) {
      const made = mkdtempSync(join(directory, 'bundle-'));
      for (const [path, content] of Object.entries(files)) {
        mkdirSync(dirname(join(made, path)), { recursive: true });
        writeFileSync(join(made, path), content);
      }
      return made;
    },
    start,
    skycap: (args, options) => start(args, options).ended,
    async [Symbol.asyncDispose]() {
      await server.close();
      if (engine === 'docker') removeKept(join(directory, 'data/skycap/state/state.db'));
      await images[Symbol.asyncDispose]();
      rmSync(directory, { recursive: true, force: true });
      rmSync(runtime, { recursive: true, force: true });
    },
  };
}

/** What failed runs keep with the Docker daemon lies outside the world's folders. */
function removeKept(database: string): void {
  if (!existsSync(database)) return;
  using state = new DatabaseSync(database, { readOnly: true });
  const runs = new Set(
    state
      .prepare('SELECT id FROM runs')
      .all()
      .map(({ id }) => id),
  );
  const docker = (...args: string[]): string => execFileSync('docker', args, { encoding: 'utf8' });
  const kept = (format: string, ...list: string[]): readonly string[] =>
    docker(...list, '--format', `${format} {{.Label "dev.skycap.run"}}`)
      .split('\n')
      .map((line) => line.split(' '))
      .flatMap(([name, run]) => (name !== undefined && run !== undefined && runs.has(run) ? [name] : []));
  const containers = kept('{{.ID}}', 'ps', '--all');
  if (containers.length > 0) docker('rm', '-f', '-v', ...containers);
  const volumes = kept('{{.Name}}', 'volume', 'ls');
  if (volumes.length > 0) docker('volume', 'rm', '-f', ...volumes);
}

function startProgram(
  args: readonly string[],
  options: RunOptions,
  env: Readonly<Record<string, string>>,
): Running {
  const [command = program, ...all] = [...(options.within ?? []), program, ...args];
  const child = spawn(command, all, {
    cwd: options.cwd ?? env.HOME,
    env: { ...env, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
    // For what hangs; a test that is about time says so itself.
    timeout: 300_000,
    killSignal: 'SIGKILL',
  });
  let stdout = '';
  let stderr = '';
  const listeners = new Set<() => void>();
  const take = (text: string, to: 'out' | 'err'): void => {
    if (to === 'out') stdout += text;
    else stderr += text;
    for (const listener of [...listeners]) listener();
  };
  child.stdout.setEncoding('utf8').on('data', (text: string) => take(text, 'out'));
  child.stderr.setEncoding('utf8').on('data', (text: string) => take(text, 'err'));
  child.stdin.on('error', () => {});
  child.stdin.end(options.input ?? '');
  const ended = new Promise<Ran>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      for (const listener of [...listeners]) listener();
      resolve({
        code,
        signal,
        stdout,
        stderr,
        get events() {
          return stderr
            .split('\n')
            .filter((line) => line.startsWith('{'))
            .map((line) => JSON.parse(line) as Record<string, unknown>);
        },
        json: <T>() => parse<T>(stdout, stderr),
      });
    });
  });
  const said = (text: string | RegExp): Promise<void> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const all = stdout + stderr;
        if (typeof text === 'string' ? all.includes(text) : text.test(all)) {
          listeners.delete(look);
          resolve();
        } else if (child.exitCode !== null || child.signalCode !== null) {
          listeners.delete(look);
          reject(new Error(`it ended without saying ${String(text)}:\n${all}`));
        }
      };
      listeners.add(look);
      look();
    });
  return { process: child, ended, said };
}

function parse<T>(stdout: string, stderr: string): T {
  try {
    return JSON.parse(stdout) as T;
  } catch {
    throw new Error(`stdout is no JSON:\n${stdout}\nstderr:\n${stderr}`);
  }
}

/** The run, if it ended with this exit code; else an error that shows what it said. */
export function expectCode(ran: Ran, code: number): Ran {
  if (ran.code === code) return ran;
  throw new Error(
    `exit code ${ran.code ?? ran.signal}, expected ${code}\nstdout:\n${ran.stdout}\nstderr:\n${ran.stderr}`,
  );
}

/** Every file below a folder with its bytes; for tests that search what was left behind. */
export function allFiles(folder: string): ReadonlyMap<string, Buffer> {
  const files = new Map<string, Buffer>();
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isFile())
      files.set(join(entry.parentPath, entry.name), readFileSync(join(entry.parentPath, entry.name)));
  }
  return files;
}
