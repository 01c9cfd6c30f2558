import { digestOf } from '../../oci/names/index.ts';
import type { RegistryClientOptions } from '../../oci/registry/client/index.ts';
import type { Descriptor } from '../../oci/types.ts';
import { asking, codeOf } from './asking.ts';
import { type Asked, type Reply, type ScriptedOptions, scriptedRegistry } from './scripted.ts';

/** A blob of 300 000 bytes for the repository `team/app`. */
export const BYTES: Buffer = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * 7) % 256));
export const BLOB: Descriptor = { mediaType: 'x', digest: digestOf(BYTES), size: BYTES.length };
export const UPLOADS = '/v2/team/app/blobs/uploads/';
export const START = `POST ${UPLOADS}`;

/** The answer that opens or moves an upload. */
export const here = (location = `${UPLOADS}1`, more: Record<string, string> = {}): Reply => ({
  status: 202,
  headers: { location, ...more },
});

export type Rules = Parameters<typeof scriptedRegistry>[0];

export interface PushOutcome {
  /** What the client says it did, or the code of its error. */
  readonly result: string;
  /** `METHOD /path?query`, the blob's digest as `D`. */
  readonly lines: readonly string[];
  readonly asked: readonly Asked[];
  /** Offsets at which the source was opened. */
  readonly opened: readonly number[];
  readonly slept: readonly number[];
}

export interface PushInput {
  readonly client?: RegistryClientOptions;
  readonly mountFrom?: string;
  readonly blob?: Descriptor;
  readonly bytes?: Uint8Array;
  readonly scripted?: ScriptedOptions;
  /** Blobs pushed before, by the same client. */
  readonly before?: readonly Uint8Array[];
}

/** Pushes one blob to a registry that behaves as told; the closing PUT succeeds unless a rule says otherwise. */
export async function pushBlob(rules: Rules, more: PushInput = {}): Promise<PushOutcome> {
  await using registry = await scriptedRegistry(
    { [`PUT ${UPLOADS}1`]: { status: 201 }, ...rules },
    more.scripted,
  );
  await using asked = asking(more.client);
  const opened: number[] = [];
  const sourceOf = (bytes: Uint8Array) =>
    async function* (offset: number): AsyncGenerator<Uint8Array> {
      opened.push(offset);
      for (let at = offset; at < bytes.length; at += 10_000) yield bytes.subarray(at, at + 10_000);
    };
  for (const bytes of more.before ?? []) {
    const blob = { mediaType: 'x', digest: digestOf(bytes), size: bytes.length };
    await asked.client.putBlob(asked.at(registry.host), blob, sourceOf(bytes), asked.options);
  }
  const skip = registry.asked.length;
  const opens = opened.length;
  const blob = more.blob ?? BLOB;
  const options = {
    ...asked.options,
    ...(more.mountFrom === undefined ? {} : { mountFrom: more.mountFrom }),
  };
  let result = '';
  const push = asked.client.putBlob(asked.at(registry.host), blob, sourceOf(more.bytes ?? BYTES), options);
  const code = await codeOf(
    push.then((how) => {
      result = how;
    }),
  );
  return {
    result: code === 'no error' ? result : code,
    lines: registry.lines(skip).map((line) => line.replaceAll(blob.digest, 'D')),
    asked: registry.asked.slice(skip),
    opened: opened.slice(opens),
    slept: asked.clock.slept,
  };
}

export function sent(outcome: PushOutcome, method: string): readonly Asked[] {
  return outcome.asked.filter((entry) => entry.method === method);
}

/** A registry that keeps count of chunks, and may fail at a given request. */
export function countingRegistry(
  more: {
    readonly fail?: (asked: Asked, count: number) => Reply | undefined;
    /** Larger request bodies are refused with `status` (413). */
    readonly limit?: number;
    readonly status?: number;
    /** Headers of the answer that opens an upload. */
    readonly start?: Record<string, string>;
  } = {},
): { readonly rules: Rules; readonly state: { bytes: Buffer; count: number } } {
  const state = { bytes: Buffer.alloc(0), count: 0 };
  const take = (asked: Asked): Reply => {
    state.count += 1;
    const failed = more.fail?.(asked, state.count);
    if (failed !== undefined) return failed;
    if (more.limit !== undefined && asked.body.length > more.limit) return { status: more.status ?? 413 };
    const start = Number(asked.headers['content-range']?.split('-')[0] ?? state.bytes.length);
    if (start !== state.bytes.length) return { status: 416 };
    state.bytes = Buffer.concat([state.bytes, asked.body]);
    return asked.method === 'PUT'
      ? { status: 201 }
      : here(`${UPLOADS}1?n=${state.count}`, { range: `0-${state.bytes.length - 1}` });
  };
  const rules: Rules = {
    [START]: () => {
      state.bytes = Buffer.alloc(0);
      return here(`${UPLOADS}1`, more.start ?? {});
    },
    [`PATCH ${UPLOADS}1`]: take,
    [`PUT ${UPLOADS}1`]: take,
    [`GET ${UPLOADS}1`]: () => ({
      status: 204,
      headers: { location: `${UPLOADS}1`, range: `0-${Math.max(state.bytes.length - 1, 0)}` },
    }),
  };
  return { rules, state };
}
