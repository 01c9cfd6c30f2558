import type { Random } from './random.ts';

const EDGES = [0, 1, 0x0a, 0x20, 0x22, 0x2c, 0x2e, 0x2f, 0x3a, 0x3d, 0x40, 0x5c, 0x7f, 0x80, 0xff];

/** One small change of the bytes, whatever they mean. */
export function mutateBytes(bytes: Buffer, random: Random, other: Buffer): Buffer {
  const at = random.below(bytes.length + 1);
  const length = Math.min(bytes.length - at, 1 + random.below(random.chance(0.2) ? 64 : 4));
  const head = bytes.subarray(0, at);
  const rest = bytes.subarray(at + length);
  switch (random.below(8)) {
    case 0:
      return Buffer.concat([head, rest]);
    case 1:
      return Buffer.concat([head, bytes.subarray(at, at + length), bytes.subarray(at)]);
    case 2:
      return Buffer.concat([head, Buffer.from([random.pick(EDGES)]), bytes.subarray(at)]);
    case 3: {
      const from = random.below(other.length + 1);
      return Buffer.concat([head, other.subarray(from, from + 1 + random.below(32)), rest]);
    }
    case 4:
      return bytes.subarray(0, at);
    default: {
      const copy = Buffer.from(bytes);
      if (at === copy.length) return copy;
      const old = copy[at] as number;
      copy[at] = random.pick([old ^ (1 << random.below(8)), old + 1, old - 1, random.pick(EDGES)]);
      return copy;
    }
  }
}

type Json = unknown;
type Holder = Record<string | number, Json>;

const VALUES: readonly Json[] = [
  null,
  '',
  'x',
  0,
  -1,
  -0,
  1.5,
  2 ** 53 - 1,
  2 ** 53,
  true,
  [],
  {},
  [''],
  { a: 'b' },
  '\ud800',
  '__proto__',
];

/** One change of a JSON document: a value, a key, an item, or the text of a string. Not JSON: one of its bytes. */
export function mutateJson(text: Buffer, random: Random, other: Buffer): Buffer {
  let document: Json;
  try {
    document = JSON.parse(text.toString());
  } catch {
    return mutateBytes(text, random, other);
  }
  if (random.chance(0.1)) return mutateBytes(text, random, other);
  const places: (readonly [Holder, string | number])[] = [];
  collect(document, places);
  if (places.length === 0) return mutateBytes(text, random, other);
  const [holder, key] = random.pick(places);
  const value = holder[key];
  switch (random.below(6)) {
    case 0:
      if (Array.isArray(holder)) holder.splice(Number(key), 1);
      else delete holder[key];
      break;
    case 1:
      if (Array.isArray(holder)) holder.push(structuredClone(value));
      else holder[random.pick(['future', '', 'data', 'urls', 'annotations', 'Labels'])] = random.pick(VALUES);
      break;
    case 2:
      holder[key] = random.pick(VALUES);
      break;
    case 3: {
      const [from, name] = random.pick(places);
      holder[key] = structuredClone(from[name]);
      break;
    }
    default:
      if (typeof value === 'string')
        holder[key] = mutateBytes(Buffer.from(value), random, Buffer.from('a/b:c.d')).toString();
      else if (typeof value === 'number') holder[key] = value + random.pick([-1, 1]);
      else holder.more = random.pick(VALUES);
  }
  return Buffer.from(JSON.stringify(document));
}

function collect(value: Json, places: (readonly [Holder, string | number])[]): void {
  if (typeof value !== 'object' || value === null || places.length > 5000) return;
  for (const key of Object.keys(value)) {
    places.push([value as Holder, key]);
    collect((value as Holder)[key], places);
  }
}
