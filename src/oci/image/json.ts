import { ociError } from '../errors.ts';

const MAX_DEPTH = 64;

function malformed(what: string, why: string): Error {
  return ociError('OCI_MANIFEST_INVALID', `${what} is malformed: ${why}`, {
    hint: 'the image was built wrongly or is hostile; ask its author',
  });
}

/**
 * JSON whose meaning does not depend on the reader: UTF-8, no key twice in an object (one reader would take the
 * first, another the last), limited depth.
 *
 * @param what Names the document in messages.
 * @throws OCI_MANIFEST_INVALID
 */
export function parseStrictJson(bytes: Uint8Array, what: string): unknown {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw malformed(what, 'it is not UTF-8');
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw malformed(what, 'it is not JSON');
  }
  const problem = scan(text);
  if (problem !== undefined) throw malformed(what, problem);
  return value;
}

/** Walks text that JSON.parse has accepted, so only structure has to be told apart. */
function scan(text: string): string | undefined {
  const open: (Set<string> | undefined)[] = [];
  let key: string | undefined;
  const token = /"(?:[^"\\]|\\.)*"|[{}[\]:,]/gs;
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    const part = match[0];
    if (part === '{' || part === '[') {
      open.push(part === '{' ? new Set() : undefined);
      if (open.length > MAX_DEPTH) return `it is nested more than ${MAX_DEPTH} deep`;
    } else if (part === '}' || part === ']') open.pop();
    else if (part === ':') {
      const keys = open.at(-1);
      if (keys === undefined || key === undefined) continue;
      if (keys.has(key)) return `the key ${key.slice(0, 80)} is there twice`;
      keys.add(key);
    } else if (part.startsWith('"')) key = JSON.stringify(JSON.parse(part));
  }
  return undefined;
}

export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Typed reading of one document's fields; null counts as absent, as in Docker's files. */
export class Fields {
  readonly #what: string;

  constructor(what: string) {
    this.#what = what;
  }

  fail(why: string): Error {
    return malformed(this.#what, why);
  }

  object(value: unknown, name: string): JsonObject {
    if (!isObject(value)) throw this.fail(`${name} is not an object`);
    return value;
  }

  string(value: unknown, name: string): string | undefined {
    if (value === undefined || value === null) return undefined;
    if (typeof value !== 'string') throw this.fail(`${name} is not a string`);
    return value;
  }

  list(value: unknown, name: string): readonly unknown[] | undefined {
    if (value === undefined || value === null) return undefined;
    if (!Array.isArray(value)) throw this.fail(`${name} is not a list`);
    return value;
  }

  strings(value: unknown, name: string): readonly string[] | undefined {
    const list = this.list(value, name);
    for (const item of list ?? []) {
      if (typeof item !== 'string') throw this.fail(`${name} holds something that is not a string`);
    }
    return list as readonly string[] | undefined;
  }

  /** A map of strings; nulls in it are dropped. */
  map(value: unknown, name: string): Readonly<Record<string, string>> | undefined {
    if (value === undefined || value === null) return undefined;
    const entries = Object.entries(this.object(value, name)).filter(([, item]) => item !== null);
    for (const [key, item] of entries) {
      if (typeof item !== 'string') throw this.fail(`${name}.${key} is not a string`);
    }
    return Object.fromEntries(entries) as Record<string, string>;
  }
}
