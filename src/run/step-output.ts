import type { Json } from '../document/index.ts';
import type { Emit, Redactor } from '../kernel/index.ts';
import type { KnownValue, PlanStep } from '../plan/index.ts';
import { runError } from './errors.ts';
import type { RunEvent } from './events.ts';
import { LineSplitter } from './lines.ts';
import { maskValue } from './masking.ts';

type Stream = 'stdout' | 'stderr';

interface Channel {
  readonly redact: ReturnType<Redactor['stream']>;
  readonly lines: LineSplitter;
}

interface StepOutputOptions {
  readonly emit: Emit<RunEvent>;
  readonly showLive: boolean;
  /** Most of what is kept of each stream, and of what is held back. */
  readonly maxBytes: number;
  /** Why nothing of it may be shown. */
  readonly hidden?: string | undefined;
}

/**
 * What one attempt of a step prints, on its two ways: masked lines go out as events, raw bytes are kept where an
 * output or `ignoreError` reads them. A step that makes a sensitive output from stdout is held back until its value
 * is known and masked, too; where it stays unknown, what was held stays hidden (docs/security.md, S22).
 */
export class StepOutput {
  readonly #step: PlanStep;
  readonly #options: StepOutputOptions;
  readonly #redactor: Redactor;
  readonly #held: { stream: Stream; chunk: Uint8Array }[] | undefined;
  #heldBytes = 0;
  readonly #raw: Record<Stream, Uint8Array[]> = { stdout: [], stderr: [] };
  readonly #rawBytes: Record<Stream, number> = { stdout: 0, stderr: 0 };
  #channels: Record<Stream, Channel> | undefined;
  /** Why something that was printed is not shown. */
  #hiddenBecause: string | undefined;

  constructor(step: PlanStep, redactor: Redactor, options: StepOutputOptions) {
    this.#step = step;
    this.#options = options;
    this.#redactor = redactor;
    this.#held = !options.showLive && step.outputs.some(isSecretOfStdout) ? [] : undefined;
  }

  write(stream: Stream, chunk: Uint8Array): void {
    const isKept = this.#keeps(stream);
    // One copy for both: the engine may use its buffer again.
    const own = isKept || this.#held !== undefined ? Uint8Array.from(chunk) : chunk;
    if (isKept) {
      this.#rawBytes[stream] += own.byteLength;
      if (this.#rawBytes[stream] <= this.#options.maxBytes) this.#raw[stream].push(own);
    }
    if (this.#step.suppressOutput) return;
    if (this.#options.hidden !== undefined) this.#hiddenBecause = this.#options.hidden;
    else if (this.#held === undefined) this.#show(stream, own);
    else this.#hold(this.#held, stream, own);
  }

  /** The raw bytes of a stream. @throws OUTPUT_INVALID beyond the limit */
  raw(stream: Stream): Uint8Array {
    const { maxBytes } = this.#options;
    if (this.#rawBytes[stream] > maxBytes) {
      throw runError(
        'OUTPUT_INVALID',
        `step ${this.#step.id} printed more than ${maxBytes} bytes on ${stream}, from which an output is read`,
        {
          hint: 'write the output to a file below /cnab/app/outputs instead',
        },
      );
    }
    return Buffer.concat(this.#raw[stream]);
  }

  /**
   * From here on the sensitive ones of these outputs are masked, also in what was held, which is shown now, and in
   * the unfinished last lines. What was held stays hidden where an output that is in it is not among them.
   *
   * @param outputs undefined where nobody can tell whether all that it printed is here
   */
  end(outputs?: ReadonlyMap<string, KnownValue>): void {
    for (const [name, value] of outputs ?? []) if (value.sensitive) this.#mask(name, value);
    const held = this.#held?.splice(0) ?? [];
    const unknown = held.length === 0 ? undefined : this.#unknownOutput(outputs);
    if (unknown === undefined) for (const { stream, chunk } of held) this.#show(stream, chunk);
    else
      this.#hiddenBecause = `its sensitive output ${unknown} could not be had from it (--show-live shows it)`;
    this.#finishLines();
    if (this.#hiddenBecause === undefined) return;
    const message = `step ${this.#step.id}: what it printed is not shown in full: ${this.#hiddenBecause}`;
    this.#options.emit({ type: 'notice', code: 'output-hidden', message });
  }

  #mask(name: string, value: KnownValue): void {
    const source = this.#step.outputs.find((output) => output.name === name)?.source.kind;
    const json = typeof value.json === 'string' ? partsOf(value.json, source) : value.json;
    maskValue(this.#redactor, { name, json, bytes: value.bytes }, this.#options.emit);
  }

  /** A sensitive output that may stand in what was held and has no value; nothing on stdout holds none. */
  #unknownOutput(outputs: ReadonlyMap<string, KnownValue> | undefined): string | undefined {
    if (outputs !== undefined && this.#rawBytes.stdout === 0) return undefined;
    return this.#step.outputs.find((output) => isSecretOfStdout(output) && outputs?.has(output.name) !== true)
      ?.name;
  }

  #hold(held: { stream: Stream; chunk: Uint8Array }[], stream: Stream, chunk: Uint8Array): void {
    this.#heldBytes += chunk.byteLength;
    const { maxBytes } = this.#options;
    if (this.#heldBytes <= maxBytes) held.push({ stream, chunk });
    else this.#hiddenBecause = `more than ${maxBytes} bytes of it had to be held back`;
  }

  #finishLines(): void {
    if (this.#channels === undefined) return;
    for (const stream of ['stdout', 'stderr'] as const) {
      const { redact, lines } = this.#channels[stream];
      // Where the end is missing, what the redactor still has may be the begin of a secret.
      const rest = this.#hiddenBecause === undefined ? redact.flush() : new Uint8Array();
      this.#emitLines(stream, [...lines.write(rest), ...lines.end()]);
    }
    this.#channels = undefined;
  }

  #keeps(stream: Stream): boolean {
    if (stream === 'stdout') return this.#step.outputs.some((output) => output.source.kind !== 'path');
    return this.#step.ignoreError !== undefined;
  }

  #show(stream: Stream, chunk: Uint8Array): void {
    this.#channels ??= this.#openChannels();
    const channel = this.#channels[stream];
    this.#emitLines(stream, channel.lines.write(channel.redact.write(chunk)));
  }

  #emitLines(stream: Stream, lines: readonly string[]): void {
    for (const text of lines) this.#options.emit({ type: 'step.output', step: this.#step.id, stream, text });
  }

  #openChannels(): Record<Stream, Channel> {
    const open = (): Channel => ({ redact: this.#redactor.stream(), lines: new LineSplitter() });
    return { stdout: open(), stderr: open() };
  }
}

function isSecretOfStdout({ sensitive, source }: PlanStep['outputs'][number]): boolean {
  return sensitive && source.kind !== 'path';
}

/** A value put together from what was printed does not stand there as a whole: its parts are what to look for. */
function partsOf(text: string, source: PlanStep['outputs'][number]['source']['kind'] | undefined): Json {
  if (source === 'regex') return text.split('\n');
  if (source !== 'jsonPath') return text;
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}
