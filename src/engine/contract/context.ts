import { randomBytes } from 'node:crypto';
import { readAll, readArchive } from '../archive.ts';
import type {
  ContainerExit,
  ContainerRun,
  EngineEvent,
  OperationOptions,
  Session,
  SessionSpec,
} from '../port.ts';
import type { ContractFixture, Program, RunIds } from './fixture.ts';
import { plainRun } from './plain-run.ts';

export interface Ran {
  readonly containerId: string;
  readonly exit: ContainerExit;
  readonly stdout: string;
  readonly stderr: string;
  readonly chunks: readonly { readonly stream: 'stdout' | 'stderr'; readonly chunk: Buffer }[];
  readonly started: number;
}

export interface Running {
  readonly result: Promise<Ran>;
  readonly containerId: string;
  /** First and second Ctrl-C. */
  cancel(): void;
  kill(): void;
  /** Resolves when stdout contains the text. */
  said(text: string): Promise<void>;
}

/** What one case works with; everything it opened is gone afterwards. */
export class CaseContext {
  readonly fixture: ContractFixture;
  readonly notices: string[] = [];
  readonly operation: OperationOptions;
  readonly #runs: RunIds[] = [];
  #containers = 0;

  constructor(fixture: ContractFixture) {
    this.fixture = fixture;
    this.operation = {
      signal: new AbortController().signal,
      emit: (event: EngineEvent) => void (event.type === 'engine.notice' && this.notices.push(event.message)),
    };
  }

  spec(more: Partial<SessionSpec> = {}): SessionSpec {
    const spec: SessionSpec = {
      runId: `r${randomBytes(6).toString('hex')}`,
      installationId: `i${randomBytes(6).toString('hex')}`,
      images: this.fixture.images,
      network: false,
      ...more,
    };
    this.#runs.push(spec);
    return spec;
  }

  async session(more: Partial<SessionSpec> = {}): Promise<Session> {
    return await this.fixture.engine.open(this.spec(more), this.operation);
  }

  container(program: Program, more: Partial<ContainerRun> = {}): ContainerRun {
    this.fixture.learn?.(program);
    this.#containers += 1;
    return {
      ...plainRun,
      containerId: `c${this.#containers}-${randomBytes(4).toString('hex')}`,
      image: program.image,
      argv: program.argv,
      env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
      graceMs: 10_000,
      ...more,
    };
  }

  start(session: Session, program: Program, more: Partial<ContainerRun> = {}): Running {
    const run = this.container(program, more);
    return this.#follow(run.containerId, (io) => session.run(run, io));
  }

  async run(session: Session, program: Program, more: Partial<ContainerRun> = {}): Promise<Ran> {
    return await this.start(session, program, more).result;
  }

  /** Awaits a container that another process started. */
  attach(session: Session, containerId: string): Running {
    return this.#follow(containerId, async (io) => {
      const exit = await session.attach(containerId, io);
      if (exit === undefined) throw new Error(`${containerId} never started`);
      return exit;
    });
  }

  async collect(
    session: Session,
    ran: Pick<Ran, 'containerId'>,
    paths: readonly string[] = ['/cnab/app/outputs'],
  ) {
    return await session.collect(ran.containerId, { paths, maxFileBytes: 1 << 20, maxTotalBytes: 2 << 20 });
  }

  /** Paths and text of what an archive of the workspace holds. */
  async files(session: Session, paths: readonly string[]): Promise<Record<string, string>> {
    const found: Record<string, string> = {};
    for await (const entry of readArchive(await session.workspace.get(paths))) {
      if (entry.type === 'file') found[entry.path] = String(await readAll(entry.content));
      if (entry.type === 'symlink') found[entry.path] = `-> ${entry.linkTarget}`;
    }
    return found;
  }

  /** What the runs of this case have left on the host. */
  async leftovers(): Promise<readonly string[]> {
    return await this.fixture.leftovers(this.#runs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { runId } of this.#runs) await this.fixture.engine.sweep(runId, this.operation);
    for (const { installationId } of this.#runs)
      await this.fixture.engine.removeVolumes(installationId, this.operation);
  }

  #follow(
    containerId: string,
    begin: (io: Parameters<Session['run']>[1]) => Promise<ContainerExit>,
  ): Running {
    const cancel = new AbortController();
    const kill = new AbortController();
    const chunks: { stream: 'stdout' | 'stderr'; chunk: Buffer }[] = [];
    const listeners = new Set<() => void>();
    let started = 0;
    const text = (stream: 'stdout' | 'stderr'): string =>
      Buffer.concat(chunks.filter((one) => one.stream === stream).map((one) => one.chunk)).toString('utf8');
    const ended = begin({
      onOutput(stream, chunk) {
        chunks.push({ stream, chunk: Buffer.from(chunk) });
        for (const listener of [...listeners]) listener();
      },
      onStarted() {
        started += 1;
      },
      signal: cancel.signal,
      kill: kill.signal,
    });
    const result = ended.then(
      (exit): Ran => ({ containerId, exit, stdout: text('stdout'), stderr: text('stderr'), chunks, started }),
    );
    // A case may look at other things first.
    result.catch(() => {});
    return {
      containerId,
      result,
      cancel: () => cancel.abort(),
      kill: () => kill.abort(),
      async said(wanted) {
        const { promise, resolve } = Promise.withResolvers<void>();
        const look = (): void => void (text('stdout').includes(wanted) && resolve());
        listeners.add(look);
        look();
        const end = result.then((ran) => {
          if (!ran.stdout.includes(wanted))
            throw new Error(`it ended (${ran.exit.exitCode}) without saying ${wanted}: ${ran.stderr}`);
        });
        await Promise.race([promise, end]);
        listeners.delete(look);
      },
    };
  }
}
