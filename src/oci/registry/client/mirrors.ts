import { isSkycapError } from '../../../kernel/index.ts';
import { ociError } from '../../errors.ts';
import { digestOf, digestParts } from '../../names/index.ts';
import type { BlobBytes, TransferOptions } from '../../port.ts';
import type { Descriptor } from '../../types.ts';
import { openBlob } from './download.ts';
import type { Target } from './target.ts';

/** A mirror's blob up to this size, in bytes, is held until its digest is known to be right: configs, small layers. */
const HELD = 1024 * 1024;

/** Where something may be asked. */
export interface Place {
  /** `host[:port]` */
  readonly name: string;
  readonly transfer: TransferOptions;
  /** What is configured for the host is read only now, so that a mirror's faults are the mirror's. */
  target(): Target;
}

/**
 * Asks one place after the other. The last is the registry itself, and its word is final; a mirror's failure is not,
 * and what a mirror lacks the registry may have.
 */
export async function askInTurn<T>(
  places: readonly Place[],
  read: (target: Target, isMirror: boolean) => Promise<T>,
): Promise<{ readonly answer: T; readonly at: number }> {
  const last = places.length - 1;
  for (const [at, place] of places.slice(0, last).entries()) {
    try {
      const answer = await read(place.target(), true);
      if (answer !== undefined) return { answer, at };
    } catch (error) {
      passOver(place, error);
    }
  }
  return { answer: await read((places[last] as Place).target(), false), at: last };
}

/** @throws the error where it is no coded one, or the reason of the caller's signal */
function passOver({ name, transfer }: Place, error: unknown): void {
  transfer.signal.throwIfAborted();
  if (!isSkycapError(error)) throw error;
  transfer.emit({
    type: 'registry.warning',
    registry: name,
    message: `mirror passed over: ${error.message}`,
  });
}

/**
 * The bytes of a blob, as `openBlob` gives them. Where a mirror fails on the way, the next place goes on at the byte
 * that is missing; where one has sent other bytes than those of the digest, only who asked can begin again (`mirrors:
 * false`), unless the blob was small enough to be held.
 */
export async function openBlobInTurn(
  places: readonly Place[],
  blob: Descriptor,
  offset: number,
): Promise<BlobBytes> {
  const { answer, at } = await askInTurn(places, (target, isMirror) =>
    isMirror && offset === 0 && blob.size <= HELD ? whole(target, blob) : openBlob(target, blob, offset),
  );
  const left = places.slice(at);
  if (left.length === 1) return answer;
  const mirror = (left[0] as Place).name;
  return Object.assign(continued(blob, { offset, first: answer, places: left }), { mirror });
}

async function whole(target: Target, blob: Descriptor): Promise<AsyncIterable<Uint8Array>> {
  const parts: Uint8Array[] = [];
  for await (const part of await openBlob({ ...target, lend: false }, blob, 0)) parts.push(part);
  const digest = digestOf(Buffer.concat(parts), digestParts(blob.digest).algorithm);
  if (digest === blob.digest) return each(parts);
  throw ociError(
    'REGISTRY_DIGEST_MISMATCH',
    `${target.subject}: ${target.host.name} sent a blob with digest ${digest} instead of ${blob.digest}`,
    { hint: 'the bytes are not used; ask who runs the mirror' },
  );
}

async function* each(parts: readonly Uint8Array[]): AsyncGenerator<Uint8Array, void> {
  yield* parts;
}

/** @param from `places` begins with the one that `first` comes from. */
async function* continued(
  blob: Descriptor,
  from: {
    readonly offset: number;
    readonly first: AsyncIterable<Uint8Array>;
    readonly places: readonly Place[];
  },
): AsyncGenerator<Uint8Array, void> {
  let { offset: position, first: bytes, places } = from;
  for (;;) {
    try {
      for await (const part of bytes) {
        position += part.length;
        yield part;
      }
      return;
    } catch (error) {
      const [failed, ...others] = places;
      if (failed === undefined || others.length === 0) throw error;
      passOver(failed, error);
      const next = await askInTurn(others, (target) => openBlob(target, blob, position));
      bytes = next.answer;
      places = others.slice(next.at);
    }
  }
}
