import type { ContainerExit, ContainerRun } from '../port.ts';
import { FakeExit, type FakeProcess, type FakeProgram, fakeFiles } from './program.ts';
import { type DirectoryNode, directory, file, type Mount, View } from './tree.ts';
import { type FakeContainer, type FakeImage, type FakeRun, imageTree } from './world.ts';

const never = new Promise<never>(() => {});

export interface StartOptions {
  readonly image: FakeImage;
  readonly user: { readonly uid: number; readonly gid: number };
  /** By scope and name. */
  readonly volumes: ReadonlyMap<string, DirectoryNode>;
}

/** Starts the program of a container; it goes on whether or not anybody waits. */
export function startContainer(run: FakeRun, spec: ContainerRun, options: StartOptions): FakeContainer {
  const outputs = directory();
  const root = imageTree(options.image);
  const view = viewOf(run, spec, { root, outputs, volumes: options.volumes });
  if (spec.workingDir !== '/') view.mkdir(spec.workingDir);
  const ended = new AbortController();
  const startedAt = new Date().toISOString();
  const { promise: finished, resolve: finish } = Promise.withResolvers<Ending>();
  const output: FakeContainer['output'] = [];
  const listeners = new Set<() => void>();
  let cause: 'exited' | 'cancelled' | 'timeout' = 'exited';
  let onTerm = (): void => finish({ exitCode: 143, cause });
  const terminate = (why: 'cancelled' | 'timeout'): void => {
    if (cause === 'exited') cause = why;
    onTerm();
  };
  const kill = (why: 'cancelled' | 'timeout'): void => {
    if (cause === 'exited') cause = why;
    finish({ exitCode: 137, cause });
  };
  const say = (stream: 'stdout' | 'stderr', data: string | Uint8Array): void => {
    if (ended.signal.aborted) return;
    output.push({ stream, chunk: Buffer.from(data) });
    for (const listener of [...listeners]) listener();
  };
  const program = programOf(options.image, spec.argv);
  if (program === undefined && view.lookup(spec.argv[0] as string) !== undefined) {
    finish({ exitCode: 126, cause: 'not-executable', message: 'the command cannot be executed' });
  } else if (program === undefined) {
    finish({
      exitCode: 127,
      cause: 'not-found',
      message: `executable file \`${spec.argv[0]}\` not found in $PATH`,
    });
  } else {
    const process: FakeProcess = {
      containerId: spec.containerId,
      image: spec.image,
      argv: spec.argv,
      env: { ...spec.env },
      ...options.user,
      cwd: spec.workingDir,
      network: spec.network,
      files: fakeFiles(view, spec.workingDir),
      stdout: (data) => say('stdout', data),
      stderr: (data) => say('stderr', data),
      onTerm(handler) {
        onTerm = handler;
      },
      sleep: (ms) => sleep(ms, ended.signal),
      ended: ended.signal,
    };
    void runProgram(program, process).then((exitCode) => finish({ exitCode, cause }));
  }
  const stopDeadline = deadline(spec, { terminate, kill });
  const container: FakeContainer = {
    run: spec,
    output,
    listeners,
    outputs,
    root,
    terminate,
    kill,
    read: (path) => view.lookup(path, false)?.node,
    list: (path) => view.list(path),
    done: finished.then((ending) => {
      stopDeadline();
      ended.abort();
      const exit: ContainerExit = { ...ending, startedAt, finishedAt: new Date().toISOString() };
      container.exit = exit;
      for (const listener of [...listeners]) listener();
      return exit;
    }),
  };
  return container;
}

type Ending = Pick<ContainerExit, 'exitCode' | 'cause' | 'message'>;

async function runProgram(program: FakeProgram, process: FakeProcess): Promise<number> {
  try {
    // A start takes a turn of the event loop: nobody may count on output before `run` has returned its promise.
    await Promise.resolve();
    return ((await program(process)) ?? 0) & 0xff;
  } catch (cause) {
    if (cause instanceof FakeExit) return cause.exitCode & 0xff;
    process.stderr(`${cause instanceof Error ? cause.message : String(cause)}\n`);
    return 1;
  }
}

function deadline(spec: ContainerRun, container: Pick<FakeContainer, 'terminate' | 'kill'>): () => void {
  if (spec.timeoutMs === undefined) return () => {};
  let grace: NodeJS.Timeout | undefined;
  const timer = setTimeout(() => {
    grace = setTimeout(() => container.kill('timeout'), spec.graceMs);
    container.terminate('timeout');
  }, spec.timeoutMs);
  return () => {
    clearTimeout(timer);
    clearTimeout(grace);
  };
}

function programOf(image: FakeImage, argv: readonly string[]): FakeProgram | undefined {
  return image.programs?.[argv.join('\n')] ?? image.programs?.[argv[0] as string] ?? image.run;
}

function sleep(ms: number, ended: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    // A killed process does not go on: its promise stays pending and is collected with it.
    ended.addEventListener('abort', () => clearTimeout(timer), { once: true });
  }).then(() => (ended.aborted ? never : undefined));
}

function viewOf(
  run: FakeRun,
  spec: ContainerRun,
  parts: {
    readonly root: DirectoryNode;
    readonly outputs: DirectoryNode;
    readonly volumes: ReadonlyMap<string, DirectoryNode>;
  },
): View {
  const mounts: Mount[] = [];
  if (spec.workspace !== 'none')
    mounts.push({ path: '/cnab/app', node: run.workspace, readOnly: spec.workspace === 'ro' });
  if (spec.home === 'shared') {
    mounts.push({ path: '/home/nonroot', node: run.shared.home, readOnly: false });
    mounts.push({ path: '/root', node: run.shared.home, readOnly: false });
    mounts.push({ path: '/tmp', node: run.shared.tmp, readOnly: false });
  }
  for (const volume of spec.volumes) {
    mounts.push({
      path: volume.path,
      node: parts.volumes.get(`${volume.scope}/${volume.name}`) as DirectoryNode,
      readOnly: false,
    });
  }
  mounts.push({ path: spec.outputsDir, node: parts.outputs, readOnly: false });
  for (const entry of spec.files) {
    mounts.push({ path: entry.path, node: file(entry.content, entry.mode), readOnly: entry.readOnly });
  }
  const view = new View(parts.root, mounts);
  return view;
}
