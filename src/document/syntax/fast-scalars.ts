import type { ScalarNode } from '../node.ts';

/** Not plain enough for the plain reader; the library reads it. */
export class Bail extends Error {}

export function plainScalar(text: string, start: number): ScalarNode {
  return {
    kind: 'scalar',
    value: plainValue(text),
    text,
    style: 'plain',
    span: { start, end: start + text.length },
  };
}

/** YAML 1.2 core schema, section 10.3.2; forms that nobody writes are the library's. */
function plainValue(text: string): ScalarNode['value'] {
  const c = text.charCodeAt(0);
  const digit = (c >= 48 && c <= 57) || c === 43 || c === 45 || c === 46;
  if (digit) {
    if (/^[-+]?[0-9]+$/.test(text)) {
      const value = Number(text);
      if (!Number.isSafeInteger(value)) throw new Bail();
      return value;
    }
    if (/^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)$/.test(text)) return Number(text);
    if (/^(?:0[ox]|[-+]?\.(?:inf|nan)|[-+]?[.0-9]+[eE])/i.test(text)) throw new Bail();
    return text;
  }
  if (text === '~' || text === 'null' || text === 'Null' || text === 'NULL') return null;
  if (text === 'true' || text === 'True' || text === 'TRUE') return true;
  if (text === 'false' || text === 'False' || text === 'FALSE') return false;
  return text;
}

const SIMPLE: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  '"': '"',
  '\\': '\\',
  '/': '/',
  r: '\r',
  '0': '\0',
  e: '\x1b',
};

export function unescapeDouble(inner: string): string {
  return inner.replace(
    /\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\s\S]))/g,
    (_, four?: string, two?: string, one?: string) => {
      const hex = four ?? two;
      if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16));
      const simple = Object.hasOwn(SIMPLE, one as string) ? SIMPLE[one as string] : undefined;
      if (simple === undefined) throw new Bail();
      return simple;
    },
  );
}
