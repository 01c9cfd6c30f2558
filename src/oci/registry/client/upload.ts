import { isSkycapError } from '../../../kernel/index.ts';
import type { Descriptor } from '../../types.ts';
import { hasBlob } from './blobs.ts';
import { askedWait, PROGRESS, reasonOf } from './caller.ts';
import type { Host } from './host.ts';
import type { Target } from './target.ts';
import { type BlobSource, held, type Sending, sendChunks, sendRest, sendSingle } from './upload-parts.ts';
import { abandon, begin, mount, positionOf, type UploadPosition } from './upload-session.ts';

export type { BlobSource } from './upload-parts.ts';

/** GitHub's registry takes about 4 MiB a request. */
const FALLBACK_CHUNK = 4 * 1024 * 1024;
const SMALLEST_CHUNK = 64 * 1024;
/** A chunk is held in memory; a registry that wants larger ones gets the rest in one request. */
const LARGEST_CHUNK = 16 * 1024 * 1024;
/** Blobs that go with the opening POST where a registry takes that; where not, so much is sent in vain, once. */
const SINGLE = 64 * 1024;
/** Some registries forget an upload whose connection broke; one that forgets all of them is not pushed to. */
const MOST_RESTARTS = 3;

export interface UploadOptions {
  readonly chunkSize: number | undefined;
  readonly mountFrom: string | undefined;
}

/** What a registry has shown to take and to refuse. */
interface Habits {
  refusesSingle: boolean;
  /** Bytes a request at most. */
  chunk: number | undefined;
}

const habits = new WeakMap<Host, Habits>();

function habitsOf(host: Host): Habits {
  const known = habits.get(host) ?? { refusesSingle: false, chunk: undefined };
  habits.set(host, known);
  return known;
}

/** distribution-spec, "Push": what is there is not sent, what may be mounted is not either. */
export async function putBlob(
  target: Target,
  blob: Descriptor,
  source: BlobSource,
  settings: UploadOptions,
): Promise<'present' | 'mounted' | 'uploaded'> {
  if (await hasBlob(target, blob.digest)) return 'present';
  const { mountFrom } = settings;
  const mounted =
    mountFrom === undefined || mountFrom === target.repository
      ? undefined
      : await mount(target, blob.digest, mountFrom);
  if (mounted === 'mounted') return 'mounted';
  let start = mounted === undefined ? undefined : { session: mounted, offset: 0 };
  const isSmall = blob.size <= SINGLE;
  const sending = isSmall ? await held({ target, blob, source }) : { target, blob, source };
  if (start === undefined && isSmall && !habitsOf(target.host).refusesSingle) {
    const single = await sendSingle(sending);
    if (single === 'uploaded') return 'uploaded';
    habitsOf(target.host).refusesSingle = true;
    start = single === undefined ? undefined : { session: single, offset: 0 };
  }
  await new Upload(sending, settings.chunkSize).run(start);
  return 'uploaded';
}

class Upload {
  readonly #sending: Sending;
  #attempt: ReturnType<Target['caller']['begin']>;
  #chunkSize: number | undefined;
  #position: UploadPosition | undefined;
  #isRenewed = false;
  #restarts = 0;

  constructor(sending: Sending, chunkSize: number | undefined) {
    const { blob, target } = sending;
    this.#sending = sending;
    this.#attempt = target.caller.begin();
    const most = Math.min(chunkSize ?? Infinity, habitsOf(target.host).chunk ?? Infinity);
    this.#chunkSize = blob.size > most ? most : undefined;
  }

  async run(start: UploadPosition | undefined): Promise<void> {
    const { target, blob } = this.#sending;
    this.#position = start;
    for (;;) {
      this.#position ??= { session: await begin(target, blob.digest), offset: 0 };
      try {
        await this.#send(this.#position);
        return;
      } catch (error) {
        target.options.signal.throwIfAborted();
        try {
          await this.#recover(error);
        } catch (final) {
          if (this.#position !== undefined) await abandon(target, this.#position.session);
          throw final;
        }
      }
    }
  }

  async #send(position: UploadPosition): Promise<void> {
    const size = this.#chunkSize;
    const chunk = size === undefined ? undefined : Math.max(size, position.session.minChunk);
    if (chunk === undefined || chunk > Math.max(LARGEST_CHUNK, size ?? 0)) {
      return await sendRest(this.#sending, position);
    }
    await sendChunks(this.#sending, position, {
      size: chunk,
      smallest: SMALLEST_CHUNK,
      onRefused: (refused) => {
        habitsOf(this.#sending.target.host).chunk = Math.max(Math.floor(refused / 2), SMALLEST_CHUNK);
      },
    });
  }

  /** Decides how to go on, or throws. */
  async #recover(error: unknown): Promise<void> {
    const { target, blob } = this.#sending;
    const before = this.#position?.offset ?? 0;
    // The session may be gone, or what the registry said it had wrong: from the start, before its refusal counts.
    const isGone = isSkycapError(error, 'REGISTRY_NOT_FOUND') && this.#restarts < MOST_RESTARTS;
    const isDoubtful = before > 0 && isRefusal(error) && this.#restarts === 0;
    if (isGone || isDoubtful) {
      this.#restarts += 1;
      return await this.#restart();
    }
    if (isTooLarge(error)) return await this.#shrink(error);
    // A token that ended under way: the body goes again, with a new one, once.
    const isExpired = isSkycapError(error, 'REGISTRY_UNAUTHORIZED') && !this.#isRenewed;
    if (!isExpired && !isPassing(error)) throw error;
    if (isExpired) this.#isRenewed = true;
    else {
      await target.caller.pause(this.#attempt, error, {
        askedMs: askedWait(error),
        transfer: target.options,
        registry: target.host.name,
        reason: reasonOf(error),
      });
    }
    const { session } = this.#position as UploadPosition;
    this.#position = await positionOf(target, blob, session);
    if ((this.#position?.offset ?? 0) - before >= PROGRESS) this.#attempt = target.caller.begin();
  }

  async #shrink(error: unknown): Promise<void> {
    const { target, blob } = this.#sending;
    const next = this.#chunkSize === undefined ? FALLBACK_CHUNK : Math.floor(this.#chunkSize / 2);
    if (next < SMALLEST_CHUNK || blob.size <= SMALLEST_CHUNK) throw error;
    this.#chunkSize = next;
    habitsOf(target.host).chunk = next;
    await this.#restart();
  }

  async #restart(): Promise<void> {
    if (this.#position !== undefined) await abandon(this.#sending.target, this.#position.session);
    this.#position = undefined;
  }
}

function isPassing(error: unknown): boolean {
  return ['REGISTRY_TRUNCATED', 'REGISTRY_BUSY', 'REGISTRY_UNREACHABLE'].some((code) =>
    isSkycapError(error, code),
  );
}

function isRefusal(error: unknown): boolean {
  return isSkycapError(error, 'REGISTRY_REFUSED') || isSkycapError(error, 'REGISTRY_UNSUPPORTED');
}

function statusOf(error: unknown): unknown {
  return isSkycapError(error) ? error.details?.status : undefined;
}

function isTooLarge(error: unknown): boolean {
  const status = statusOf(error);
  return status === 413 || status === 416;
}
