import type { Clock } from '../../kernel/http/index.ts';
import type { OciEvent, TransferOptions } from '../../oci/index.ts';
import { parseReference } from '../../oci/names/index.ts';
import {
  createRegistryClient,
  type DistributionClient,
  type RegistryClientOptions,
} from '../../oci/registry/client/index.ts';
import type { Reference } from '../../oci/types.ts';
import { codeFrom } from '../coded.ts';

/** A clock that jumps instead of waiting. */
export interface JumpingClock extends Clock {
  readonly slept: readonly number[];
  advance(ms: number): void;
}

export function jumpingClock(): JumpingClock {
  let now = Date.UTC(2026, 0, 1);
  const slept: number[] = [];
  return {
    slept,
    now: () => now,
    advance: (ms) => {
      now += ms;
    },
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      slept.push(ms);
      now += ms;
    },
  };
}

export interface Asking extends AsyncDisposable {
  readonly client: DistributionClient;
  readonly options: TransferOptions;
  readonly events: readonly OciEvent[];
  readonly clock: JumpingClock;
  at(host: string, rest?: string): Reference;
}

/** A client for tests: never waits, remembers its events. */
export function asking(options: RegistryClientOptions = {}): Asking {
  const clock = jumpingClock();
  const events: OciEvent[] = [];
  const client = createRegistryClient({ clock, random: () => 0.5, ...options });
  return {
    client,
    clock,
    events,
    options: { signal: new AbortController().signal, emit: (event) => void events.push(event) },
    at: (host, rest = 'team/app:1') => parseReference(`${host}/${rest}`),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

/** The code that a promise fails with. */
export async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    return codeFrom(error);
  }
  return 'no error';
}

export async function collect(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of source) parts.push(part);
  return Buffer.concat(parts);
}
