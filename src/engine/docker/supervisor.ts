/** What a supervisor is told on its standard input, as one line of JSON. */
export interface SupervisorOrder {
  readonly socketPath: string;
  /** `/v1.41` */
  readonly prefix: string;
  readonly container: string;
  /** Private folder for `output`, `supervisor.json` and `exit.json`. */
  readonly directory: string;
  readonly timeoutMs?: number;
  readonly graceMs: number;
  /** Beyond so many bytes the output goes on in this file. */
  readonly overflow?: { readonly afterBytes: number; readonly file: string };
  /** The first process holds the streams open to the end, so an earlier end of them is a loss. */
  readonly holdsStreams: boolean;
}

/** `exit.json`, and so the last word on a container. */
export interface SupervisedExit {
  readonly exitCode: number;
  readonly oomKilled: boolean;
  readonly timedOut: boolean;
  readonly startedAt: string;
  readonly finishedAt: string;
  readonly error: string;
  /** Why the output is not complete. */
  readonly outputLost?: string;
}

/** One line of JSON on the supervisor's standard output, once. */
export type SupervisorAnswer =
  | { readonly started: true }
  | { readonly started: false; readonly status: number; readonly message: string };

/**
 * The body of a process of its own that outlives the tool: attaches to a container, starts it, writes its output to a
 * file, keeps its timeout and records its end. Its text is handed to `node -e`, so it refers to nothing outside
 * itself, and needs no file beside the bundled program.
 *
 * Protocol on stdin: the order, a line; `start`, a line. If stdin ends before that, nothing is started.
 */
export function supervise(): void {
  const fs = process.getBuiltinModule('node:fs');
  const http = process.getBuiltinModule('node:http');
  type Order = SupervisorOrder;

  const state = { order: undefined as Order | undefined, begun: false, written: 0, fd: -1, spilled: false };
  let outputLost: string | undefined;
  let timedOut = false;

  const answer = (value: SupervisorAnswer): void => {
    process.stdout.write(`${JSON.stringify(value)}\n`);
  };
  // The tool that listens may be gone at any time.
  process.stdout.on('error', () => {});
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM', 'SIGPIPE'] as const) process.on(signal, () => {});

  interface Reply {
    readonly status: number;
    readonly text: string;
  }
  const ask = (order: Order, method: string, path: string): Promise<Reply> =>
    new Promise((resolve, reject) => {
      const request = http.request(
        {
          socketPath: order.socketPath,
          path: `${order.prefix}/containers/${order.container}${path}`,
          method,
          headers: { host: 'docker', 'content-length': '0' },
          agent: false,
        },
        (response) => {
          let text = '';
          response.setEncoding('utf8');
          response.on('data', (chunk: string) => {
            text += chunk;
          });
          response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
          response.on('error', reject);
        },
      );
      request.on('error', reject);
      request.end();
    });

  const write = (order: Order, bytes: Buffer): void => {
    let rest = bytes;
    const { overflow } = order;
    if (overflow !== undefined && !state.spilled && state.written + rest.length > overflow.afterBytes) {
      const here = rest.subarray(0, overflow.afterBytes - state.written);
      append(here);
      rest = rest.subarray(here.length);
      fs.closeSync(state.fd);
      state.fd = fs.openSync(overflow.file, 'ax', 0o600);
      state.spilled = true;
    }
    append(rest);
  };
  const append = (bytes: Buffer): void => {
    for (let at = 0; at < bytes.length; ) at += fs.writeSync(state.fd, bytes, at);
    state.written += bytes.length;
  };

  /** Attaches, then calls `attached`; resolves when the stream has ended. */
  const pump = (order: Order, attached: () => void): Promise<void> =>
    new Promise((resolve, reject) => {
      const request = http.request({
        socketPath: order.socketPath,
        path: `${order.prefix}/containers/${order.container}/attach?stream=1&stdout=1&stderr=1`,
        method: 'POST',
        headers: { host: 'docker', connection: 'Upgrade', upgrade: 'tcp', 'content-length': '0' },
        agent: false,
      });
      request.on('error', reject);
      request.on('response', (response) => {
        reject(new Error(`attaching was answered with status ${response.statusCode}`));
        response.resume();
      });
      request.on('upgrade', (_response, socket, head) => {
        const take = (bytes: Buffer): void => {
          if (outputLost !== undefined) return;
          try {
            write(order, bytes);
          } catch (error) {
            // The step goes on: it must not be harmed by a full disk on our side.
            outputLost = `it could not be written: ${(error as NodeJS.ErrnoException).code ?? error}`;
          }
        };
        if (head.length > 0) take(head);
        socket.on('data', take);
        socket.on('error', (error: Error) => {
          outputLost ??= `the daemon broke off: ${error.message}`;
        });
        socket.on('close', () => resolve());
        attached();
      });
      request.end();
    });

  const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

  /** The daemon may be restarted meanwhile: asked again until it answers. */
  const patiently = async (order: Order, method: string, path: string): Promise<Reply> => {
    for (let pause = 100; ; pause = Math.min(pause * 2, 5000)) {
      try {
        const reply = await ask(order, method, path);
        if (reply.status < 500) return reply;
      } catch {
        // Asked again below.
      }
      await sleep(pause);
    }
  };

  const keepTimeout = (order: Order): void => {
    if (order.timeoutMs === undefined) return;
    const end = performance.now() + order.timeoutMs;
    const tick = (): void => {
      const left = end - performance.now();
      // Longer waits than 24 days overflow a timer.
      if (left > 0) setTimeout(tick, Math.min(left, 2 ** 31 - 1));
      else {
        timedOut = true;
        void ask(order, 'POST', '/kill?signal=TERM').catch(() => {});
        setTimeout(() => void ask(order, 'POST', '/kill?signal=KILL').catch(() => {}), order.graceMs);
      }
    };
    tick();
  };

  interface State {
    readonly Running: boolean;
    readonly ExitCode: number;
    readonly OOMKilled: boolean;
    readonly StartedAt: string;
    readonly FinishedAt: string;
    readonly Error: string;
  }
  const record = (order: Order, last: State | undefined): void => {
    const exit: SupervisedExit = {
      exitCode: last?.ExitCode ?? -1,
      oomKilled: last?.OOMKilled ?? false,
      timedOut,
      startedAt: last?.StartedAt ?? '',
      finishedAt: last?.FinishedAt ?? '',
      error: last?.Error ?? 'the container was removed by someone else',
      ...(outputLost === undefined ? {} : { outputLost }),
    };
    const file = `${order.directory}/exit.json`;
    fs.writeFileSync(`${file}.tmp`, JSON.stringify(exit), { mode: 0o600 });
    fs.renameSync(`${file}.tmp`, file);
  };

  const main = async (order: Order): Promise<void> => {
    const started = Promise.withResolvers<boolean>();
    const output = pump(order, () => {
      ask(order, 'POST', '/start').then(
        ({ status, text }) => {
          if (status === 204 || status === 304) {
            keepTimeout(order);
            answer({ started: true });
            started.resolve(true);
            return;
          }
          answer({ started: false, status, message: text });
          started.resolve(false);
        },
        (error: Error) => {
          answer({ started: false, status: 0, message: error.message });
          started.resolve(false);
        },
      );
    });
    output.catch((error: Error) => {
      answer({ started: false, status: 0, message: error.message });
      started.resolve(false);
    });
    if (!(await started.promise)) process.exit(1);
    await output;
    const streamsEnded = Date.now();
    await patiently(order, 'POST', '/wait?condition=not-running');
    const waited = Date.now() - streamsEnded;
    const { status, text } = await patiently(order, 'GET', '/json');
    const end = status === 200 ? (JSON.parse(text) as { State: State }).State : undefined;
    // A busy daemon answers late, so its word on when the container ended counts too.
    const wentOn = end === undefined ? 0 : Date.parse(end.FinishedAt) - streamsEnded;
    if (order.holdsStreams && waited > 2000 && wentOn > 2000)
      outputLost ??= 'the daemon ended the streams before the container ended';
    record(order, end);
    process.exit(0);
  };

  let input = '';
  process.stdin.setEncoding('utf8');
  process.stdin.on('data', (chunk: string) => {
    input += chunk;
    const lines = input.split('\n');
    if (state.order === undefined && lines.length > 1) {
      const order = JSON.parse(lines[0] as string) as Order;
      state.order = order;
      state.fd = fs.openSync(`${order.directory}/output`, 'ax', 0o600);
      const stat = fs.readFileSync('/proc/self/stat', 'utf8');
      const born = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
      fs.writeFileSync(`${order.directory}/supervisor.json`, JSON.stringify({ pid: process.pid, born }), {
        mode: 0o600,
      });
    }
    if (!state.begun && state.order !== undefined && lines[1] === 'start') {
      state.begun = true;
      void main(state.order);
    }
  });
  process.stdin.on('end', () => {
    if (!state.begun) process.exit(0);
  });
}
