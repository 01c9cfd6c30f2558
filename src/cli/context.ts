import type { Event } from '../kernel/index.ts';
import { usage } from './errors.ts';
import type { Controls } from './program.ts';
import type { Level } from './render/event-text.ts';
import { jsonProgress, liveProgress, type Progress, plainProgress } from './render/progress.ts';
import { styleOf } from './render/style.ts';
import { toYaml } from './render/yaml.ts';
import type { Context, Format, Host, Invocation, Result } from './types.ts';

export interface Running {
  readonly context: Context;
  emit(event: Event): void;
  /** Steps that run now, for the words of a cancellation. */
  busy(): readonly string[];
  close(): void;
}

/** What a command gets to work with: where results go, how events look, who cancels. */
export function createContext(invocation: Invocation, host: Host, controls: Controls): Running {
  const format = formatOf(invocation);
  const debug = invocation.flags.switch('debug');
  const progress = progressOf(invocation, host, controls);
  const steps = new Set<string>();
  const emit = (event: Event): void => {
    trackSteps(steps, event as Event & { readonly step?: string });
    progress.event(event);
  };
  const ask = async (question: string, hidden: boolean): Promise<string | undefined> => {
    if (!host.stdin.isTerminal || !host.stderr.isTerminal) {
      return undefined;
    }
    progress.pause();
    const answer = await host.stdin.line({ question, hidden, signal: controls.signal });
    controls.signal.throwIfAborted();
    return answer;
  };
  const context: Context = {
    host,
    format,
    style: styleOf(host.stdout, host.env),
    signal: controls.signal,
    kill: controls.kill,
    emit,
    debug,
    async result(result) {
      progress.pause();
      host.stdout.write(renderResult(result, format, styleOf(host.stdout, host.env)));
      await host.stdout.flush();
    },
    bytes(chunk) {
      progress.pause();
      host.stdout.write(chunk);
    },
    pause: () => progress.pause(),
    ask: (question) => ask(question, false),
    askSecret: (question) => ask(question, true),
  };
  return { context, emit, busy: () => [...steps], close: () => progress.close() };
}

function trackSteps(steps: Set<string>, event: Event & { readonly step?: string }): void {
  if (event.step === undefined) {
    return;
  }
  if (event.type === 'step.started') {
    steps.add(event.step);
  } else if (event.type === 'step.finished' || event.type === 'step.skipped') {
    steps.delete(event.step);
  }
}

function formatOf(invocation: Invocation): Format {
  if (invocation.command.raw === true) {
    return 'text';
  }
  const text = invocation.flags.string('output') ?? 'text';
  return text === 'json' || text === 'yaml' ? text : 'text';
}

function progressOf(invocation: Invocation, host: Host, controls: Controls): Progress {
  const debug = invocation.flags.switch('debug');
  const verbosity = invocation.flags.string('verbosity') as Level | undefined;
  const options = {
    output: host.stderr,
    style: styleOf(host.stderr, host.env),
    level: debug ? ('debug' as const) : (verbosity ?? 'info'),
    now: () => host.now(),
    every: controls.every,
  };
  const wish = invocation.flags.string('progress') ?? 'auto';
  const canMove = host.stderr.isTerminal && host.env.TERM !== 'dumb';
  if (wish === 'live' && !canMove) {
    throw usage('--progress live needs a terminal on stderr', 'use --progress plain');
  }
  if (wish === 'json') {
    return jsonProgress(options);
  }
  const isLive = wish === 'live' || (wish === 'auto' && canMove && options.style.ci === undefined);
  return isLive ? liveProgress(options) : plainProgress(options);
}

function renderResult(result: Result, format: Format, style: Context['style']): string {
  if (format === 'json') {
    return `${JSON.stringify(result.data, null, 2)}\n`;
  }
  return format === 'yaml' ? toYaml(result.data) : result.text(style);
}
