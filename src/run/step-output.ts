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

/**
 * What one attempt of a step prints, on its two ways: masked lines go out as events, raw bytes are kept where an
 * output or `ignoreError` reads them. A step that makes a sensitive output from stdout is held back until its value
 * is known and masked, too (docs/security.md, "Text").
 */
export class StepOutput {
  readonly #step: PlanStep;
  readonly #emit: Emit<RunEvent>;
  readonly #maxBytes: number;
  readonly #redactor: Redactor;
  readonly #held: { stream: Stream; chunk: Uint8Array }[] | undefined;
  readonly #raw: Record<Stream, Uint8Array[]> = { stdout: [], stderr: [] };
  readonly #rawBytes: Record<Stream, number> = { stdout: 0, stderr: 0 };
  #channels: Record<Stream, Channel> | undefined;

  constructor(
    step: PlanStep,
    redactor: Redactor,
    options: { emit: Emit<RunEvent>; showLive: boolean; maxBytes: number },
  ) {
    this.#step = step;
    this.#emit = options.emit;
    this.#maxBytes = options.maxBytes;
    this.#redactor = redactor;
    const isHeld =
      !options.showLive && step.outputs.some((output) => output.sensitive && output.source.kind !== 'path');
    this.#held = isHeld ? [] : undefined;
  }

  write(stream: Stream, chunk: Uint8Array): void {
    if (this.#keeps(stream)) {
      this.#rawBytes[stream] += chunk.byteLength;
      if (this.#rawBytes[stream] <= this.#maxBytes) this.#raw[stream].push(Uint8Array.from(chunk));
    }
    if (this.#step.suppressOutput) return;
    if (this.#held === undefined) this.#show(stream, chunk);
    else this.#held.push({ stream, chunk: Uint8Array.from(chunk) });
  }

  /** The raw bytes of a stream. @throws OUTPUT_INVALID beyond the limit */
  raw(stream: Stream): Uint8Array {
    if (this.#rawBytes[stream] > this.#maxBytes) {
      throw runError(
        'OUTPUT_INVALID',
        `step ${this.#step.id} printed more than ${this.#maxBytes} bytes on ${stream}, from which an output is read`,
        {
          hint: 'write the output to a file below /cnab/app/outputs instead',
        },
      );
    }
    return Buffer.concat(this.#raw[stream]);
  }

  /** From here on this value is masked in what is shown, what is held back included. */
  mask(name: string, value: KnownValue): void {
    maskValue(this.#redactor, { name, ...value }, this.#emit);
  }

  /** Shows what was held (the redactor knows the step's own sensitive outputs by now) and the unfinished last lines. */
  end(): void {
    if (this.#held !== undefined) {
      for (const { stream, chunk } of this.#held) this.#show(stream, chunk);
      this.#held.length = 0;
    }
    if (this.#channels === undefined) return;
    for (const stream of ['stdout', 'stderr'] as const) {
      const channel = this.#channels[stream];
      const rest = channel.redact.flush();
      this.#emitLines(stream, [...channel.lines.write(rest), ...channel.lines.end()]);
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
    for (const text of lines) this.#emit({ type: 'step.output', step: this.#step.id, stream, text });
  }

  #openChannels(): Record<Stream, Channel> {
    const open = (): Channel => ({ redact: this.#redactor.stream(), lines: new LineSplitter() });
    return { stdout: open(), stderr: open() };
  }
}
