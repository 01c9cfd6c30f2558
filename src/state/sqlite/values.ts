import { stateError } from '../errors.ts';
import type { StoredValue } from '../port.ts';
import type { Database } from './database.ts';
import type { Keyring } from './keyring.ts';
import { type SealContext, seal, unseal } from './seal.ts';

/** How a value stands in a record: `v` JSON, `b` bytes in base64, or sealed `s` under key `k`. None: undefined. */
export type EncodedValue =
  | { readonly v?: unknown }
  | { readonly b: string }
  | { readonly k: string; readonly s: string };
export type EncodedValues = Readonly<Record<string, EncodedValue>>;

/** Whose values they are; `what` is for messages. */
export interface ValueOwner {
  readonly installation: string;
  readonly run: string;
  readonly what: string;
}

interface Sealed {
  readonly encoded: { readonly k: string; readonly s: string };
  readonly owner: ValueOwner;
  readonly name: string;
}

const JSON_TAG = 0;
const BYTES_TAG = 1;
const NONE_TAG = 2;

/** Turns the values of a record into what may lie on disk, and back. */
export class ValueCodec {
  readonly #keys: Keyring;
  // A value that is written back as it was read keeps its ciphertext, so a record whose key is lost can be saved.
  readonly #sealed = new WeakMap<StoredValue, Sealed>();

  constructor(keys: Keyring) {
    this.#keys = keys;
  }

  encode(db: Database, values: Readonly<Record<string, StoredValue>>, owner: ValueOwner): EncodedValues {
    const encoded: [string, EncodedValue][] = [];
    for (const [name, value] of Object.entries(values)) {
      encoded.push([
        name,
        value.sensitive ? this.#encodeSealed(db, value, contextOf(owner, name)) : encodePlain(value.value),
      ]);
    }
    return Object.fromEntries(encoded);
  }

  /** Call it inside the transaction that reads the records. */
  prepare(db: Database): void {
    this.#keys.load(db);
  }

  /** After `prepare`, at any time: whoever lists thousands of records looks at the values of few. */
  decode(values: EncodedValues, owner: ValueOwner): Readonly<Record<string, StoredValue>> {
    const decoded: [string, StoredValue][] = [];
    for (const [name, value] of Object.entries(values)) {
      decoded.push([
        name,
        'k' in value
          ? this.#decodeSealed(value, owner, name)
          : { sensitive: false, value: decodePlain(value) },
      ]);
    }
    return Object.fromEntries(decoded);
  }

  /** The same values sealed under the current key; what cannot be opened stays as it is. */
  reseal(db: Database, values: EncodedValues, owner: ValueOwner): EncodedValues {
    const current = this.#keys.current(db);
    const result: [string, EncodedValue][] = [];
    for (const [name, value] of Object.entries(values)) {
      const key = 'k' in value && value.k !== current.id ? this.#keys.find(db, value.k) : undefined;
      const context = contextOf(owner, name);
      const plain =
        key === undefined || !('k' in value)
          ? undefined
          : unseal(key, Buffer.from(value.s, 'base64'), context);
      result.push([
        name,
        plain === undefined ? value : { k: current.id, s: seal(current, plain, context).toString('base64') },
      ]);
    }
    return Object.fromEntries(result);
  }

  #encodeSealed(db: Database, value: StoredValue, context: SealContext): EncodedValue {
    const key = this.#keys.current(db);
    const known = this.#sealed.get(value);
    if (known !== undefined && ownerKey(contextOf(known.owner, known.name)) === ownerKey(context)) {
      if (known.encoded.k === key.id || this.#keys.find(db, known.encoded.k) === undefined)
        return known.encoded;
    }
    return { k: key.id, s: seal(key, toBytes(value.value), context).toString('base64') };
  }

  #decodeSealed(
    encoded: { readonly k: string; readonly s: string },
    owner: ValueOwner,
    name: string,
  ): StoredValue {
    const key = this.#keys.known(encoded.k);
    let opened: { readonly value: unknown } | undefined;
    const open = (): unknown => {
      if (key === undefined) throw lost(`parameter "${name}" of ${owner.what}`, encoded.k);
      if (opened === undefined) {
        const plain = unseal(key, Buffer.from(encoded.s, 'base64'), contextOf(owner, name));
        if (plain === undefined) throw damaged(`parameter "${name}" of ${owner.what}`);
        opened = { value: fromBytes(plain) };
      }
      return opened.value;
    };
    // Opened when asked for: a lost key spoils only its own values.
    const stored: StoredValue = {
      sensitive: true,
      get value() {
        return open();
      },
      ...(key === undefined ? { lostKey: encoded.k } : {}),
    };
    this.#sealed.set(stored, { encoded, owner, name });
    return stored;
  }
}

export function lost(what: string, keyId: string): Error {
  return stateError('STATE_KEY_LOST', `${what} was encrypted under key ${keyId}, which is gone`, {
    hint: 'give the value again, or put the old key back into master.key',
    details: { what, key: keyId },
  });
}

export function damaged(what: string): Error {
  return stateError('STATE_CORRUPT', `${what} does not decrypt: its record was altered or damaged`, {
    hint: 'restore the state directory from a backup, or give the value again',
    details: { what },
  });
}

function contextOf(owner: ValueOwner, name: string): SealContext {
  return { installation: owner.installation, run: owner.run, name: `parameter ${name}` };
}

function ownerKey(context: SealContext): string {
  return JSON.stringify([context.installation, context.run, context.name]);
}

function encodePlain(value: unknown): EncodedValue {
  if (value instanceof Uint8Array) return { b: Buffer.from(value).toString('base64') };
  return value === undefined ? {} : { v: value };
}

function decodePlain(value: EncodedValue): unknown {
  if ('b' in value) return new Uint8Array(Buffer.from(value.b, 'base64'));
  return 'v' in value ? value.v : undefined;
}

function toBytes(value: unknown): Buffer {
  if (value instanceof Uint8Array) return Buffer.concat([Buffer.of(BYTES_TAG), value]);
  if (value === undefined) return Buffer.of(NONE_TAG);
  return Buffer.concat([Buffer.of(JSON_TAG), Buffer.from(JSON.stringify(value))]);
}

function fromBytes(bytes: Buffer): unknown {
  if (bytes[0] === BYTES_TAG) return new Uint8Array(bytes.subarray(1));
  return bytes[0] === NONE_TAG ? undefined : JSON.parse(bytes.subarray(1).toString('utf8'));
}
