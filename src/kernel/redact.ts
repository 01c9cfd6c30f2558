import { BLOCK, PatternSet } from './redact-automaton.ts';
import { characterCount, formsOf, LEAST_VALUE_CHARACTERS } from './redact-forms.ts';

/** What stands in the place of a secret. */
export const MASK = '*******';
const MASK_BYTES = Buffer.from(MASK);

export interface SecretValue {
  /** Of the credential, parameter or output, for the report of what is not masked. */
  readonly name: string;
  /** A string or bytes as they are, a number as its digits, objects and lists as their JSON text and each of their leaves. */
  readonly value: unknown;
}

/** Masks known secrets in text and binary data (docs/security.md, "Text"). */
export interface Redactor {
  /** From here on, in streams too, this value is masked. */
  add(secret: SecretValue): void;
  /** Names of values that are too short (under 4 characters) or booleans, and so are not masked. */
  readonly unmasked: readonly string[];
  text(text: string): string;
  bytes(bytes: Uint8Array): Uint8Array;
  /** Each string in plain data, keys included. */
  data<T>(data: T): T;
  /** One for each stream of bytes: a secret split over writes is still found. */
  stream(): RedactorStream;
}

export interface RedactorStream {
  /** The bytes so far, less the end that may be the begin of a secret: it comes with a later call. */
  write(bytes: Uint8Array): Uint8Array;
  /** The rest, at the end of the stream or where a writer pauses. A secret that goes on after it is not found. */
  flush(): Uint8Array;
}

/**
 * Masks the exact value and each of its lines of 6 or more characters, raw, JSON-, URL- and shell-quoted, in hex and
 * in base64 (standard and URL alphabet, all three alignments). Where occurrences overlap, all of their bytes go. Time is linear
 * in the text, whatever the secrets are.
 */
export function createRedactor(secrets: Iterable<SecretValue> = []): Redactor {
  const patterns = new PatternSet();
  const unmasked = new Set<string>();
  const add = ({ name, value }: SecretValue): void => {
    for (const bytes of partsOf(value)) {
      if (bytes === 'boolean' || (bytes.length > 0 && characterCount(bytes) < LEAST_VALUE_CHARACTERS))
        unmasked.add(name);
      else if (bytes.length > 0) for (const form of formsOf(bytes)) patterns.add(form);
    }
    patterns.prepare();
  };
  for (const secret of secrets) add(secret);
  const bytes = (input: Uint8Array): Uint8Array => {
    if (patterns.empty) return input;
    const scanner = new Scanner(patterns);
    return Buffer.concat([scanner.write(input), scanner.flush()]);
  };
  const text = (input: string): string => {
    if (patterns.empty || input.length < LEAST_VALUE_CHARACTERS) return input;
    const before = Buffer.from(input, 'utf8');
    const after = Buffer.from(bytes(before));
    return after.equals(before) ? input : after.toString('utf8');
  };
  return {
    add,
    get unmasked() {
      return [...unmasked];
    },
    text,
    bytes,
    data: (data) => mapStrings(data, text) as typeof data,
    stream: () => new Scanner(patterns),
  };
}

function partsOf(value: unknown): readonly (Uint8Array | 'boolean')[] {
  if (value === undefined || value === null) return [];
  if (typeof value === 'boolean') return ['boolean'];
  if (value instanceof Uint8Array) {
    const isBoolean =
      value.length < 16 && /^(true|false)$/i.test(Buffer.from(value).toString('latin1').trim());
    return [isBoolean ? 'boolean' : value];
  }
  if (typeof value === 'string') return partsOf(Buffer.from(value, 'utf8'));
  if (typeof value !== 'object') return [Buffer.from(String(value), 'utf8')];
  const leaves = Object.values(value).flatMap(partsOf);
  return [Buffer.from(JSON.stringify(value), 'utf8'), ...leaves];
}

function mapStrings(data: unknown, map: (text: string) => string): unknown {
  if (typeof data === 'string') return map(data);
  if (Array.isArray(data)) return data.map((item) => mapStrings(item, map));
  if (typeof data !== 'object' || data === null || Object.getPrototypeOf(data) !== Object.prototype)
    return data;
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [map(key), mapStrings(value, map)]));
}

interface Waiting {
  readonly lastBlock: number;
  readonly start: number;
}

/** Positions count from the begin of the stream. */
class Scanner implements RedactorStream {
  readonly #patterns: PatternSet;
  /** Holds the bytes from `#base` on. */
  #buffer = Buffer.alloc(0);
  #used = 0;
  #base = 0;
  #position = 0;
  /** Bytes before it were flushed and are part of no later match. */
  #origin = 0;
  #high = 0;
  #low = 0;
  readonly #states = new Int32Array(BLOCK);
  readonly #waiting: Waiting[][] = Array.from({ length: BLOCK }, () => []);
  /** Found and not yet written out, in order and apart: start, end, start, end, … */
  #found: number[] = [];
  #out: Uint8Array[] = [];

  constructor(patterns: PatternSet) {
    this.#patterns = patterns;
  }

  write(bytes: Uint8Array): Uint8Array {
    if (this.#patterns.empty) {
      this.#position += bytes.length;
      this.#base = this.#position;
      this.#origin = this.#position;
      return bytes;
    }
    this.#append(bytes);
    for (let at = 0; at < bytes.length; at++) this.#consume(bytes[at]!);
    this.#release(this.#safe());
    return this.#taken();
  }

  flush(): Uint8Array {
    this.#release(this.#position);
    this.#origin = this.#position;
    this.#states.fill(0);
    for (const waiting of this.#waiting) waiting.length = 0;
    return this.#taken();
  }

  #consume(byte: number): void {
    this.#high = (this.#high << 8) | (this.#low >>> 24);
    this.#low = (this.#low << 8) | byte;
    const end = ++this.#position;
    const seen = end - this.#origin;
    const { short, blocks } = this.#patterns;
    for (let length = 4; length < short.length; length++) {
      const table = short[length];
      if (table === undefined || seen < length) continue;
      const high = length === 4 ? 0 : this.#high & ((1 << ((length - 4) * 8)) - 1);
      if (table.get(high, this.#low) !== 0) this.#match(end - length, end);
    }
    if (seen < BLOCK) return;
    const lane = end % BLOCK;
    const state = this.#states[lane]!;
    const waiting = this.#waiting[lane]!;
    const block = blocks.get(this.#high, this.#low);
    if (block === 0 && state === 0 && waiting.length === 0) return;
    for (const { lastBlock, start } of waiting) if (lastBlock === block) this.#match(start, end);
    waiting.length = 0;
    const next = this.#patterns.step(state, block);
    this.#states[lane] = next;
    if (next === 0) return;
    const whole = this.#patterns.wholeBlocks(next);
    if (whole > 0) this.#match(end - whole * BLOCK, end);
    this.#patterns.eachTail(next, ({ rest, lastBlock, length }) => {
      this.#waiting[(end + rest) % BLOCK]!.push({ lastBlock, start: end + rest - length });
    });
  }

  /** Matches come in the order of their ends; overlapping ones become one. */
  #match(start: number, end: number): void {
    let from = start;
    const found = this.#found;
    while (found.length > 0 && found.at(-1)! > from) {
      from = Math.min(from, found.at(-2)!);
      found.length -= 2;
    }
    found.push(from, end);
  }

  /** Up to here no byte can be part of a match that is still to come. */
  #safe(): number {
    let safe = this.#position;
    for (let back = 0; back < BLOCK; back++) {
      const end = this.#position - back;
      const lane = ((end % BLOCK) + BLOCK) % BLOCK;
      const begun = this.#patterns.holdBlocks(this.#states[lane]!);
      if (begun > 0) safe = Math.min(safe, end - begun * BLOCK);
      for (const { start } of this.#waiting[lane]!) safe = Math.min(safe, start);
    }
    // A pattern that began within the last 7 bytes has not filled a block yet.
    for (
      let length = Math.min(BLOCK - 1, this.#position - Math.max(this.#origin, this.#base));
      length > 0;
      length--
    ) {
      const from = this.#used - length;
      if (this.#position - length >= safe) break;
      if (this.#patterns.mayBegin(length, (at) => this.#buffer[from + at]!))
        return Math.min(safe, this.#position - length);
    }
    return safe;
  }

  /** Writes out everything before `safe`; a match that reaches over it waits, and needs its bytes no more. */
  #release(safe: number): void {
    let done = 0;
    for (; done < this.#found.length; done += 2) {
      const start = this.#found[done]!;
      const end = this.#found[done + 1]!;
      if (start >= safe) break;
      this.#emit(start);
      if (end > safe) {
        this.#drop(safe);
        break;
      }
      this.#out.push(MASK_BYTES);
      this.#drop(end);
    }
    this.#found.splice(0, done);
    if (this.#found.length === 0 || this.#found[0]! >= safe) this.#emit(safe);
  }

  #emit(to: number): void {
    if (to <= this.#base) return;
    const offset = this.#offset();
    this.#out.push(Buffer.from(this.#buffer.subarray(offset, offset + to - this.#base)));
    this.#base = to;
  }

  #drop(to: number): void {
    this.#base = Math.max(this.#base, to);
  }

  #offset(): number {
    return this.#used - (this.#position - this.#base);
  }

  #append(bytes: Uint8Array): void {
    const kept = this.#position - this.#base;
    if (this.#used + bytes.length > this.#buffer.length) {
      // Doubling keeps single-byte writes linear.
      const target =
        kept * 2 + bytes.length > this.#buffer.length
          ? Buffer.alloc((kept + bytes.length) * 2 + 64)
          : this.#buffer;
      this.#buffer.copy(target, 0, this.#used - kept, this.#used);
      this.#buffer = target;
      this.#used = kept;
    }
    this.#buffer.set(bytes, this.#used);
    this.#used += bytes.length;
  }

  #taken(): Uint8Array {
    const out = this.#out.length === 1 ? this.#out[0]! : Buffer.concat(this.#out);
    this.#out = [];
    return out;
  }
}
