import type { Json } from '../types.ts';

/** The type of a value, for messages that must not show the value. */
export function typeName(value: Json): string {
  if (value === null) return 'nothing (null)';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a map';
  if (typeof value === 'string') return 'text';
  return typeof value === 'number' ? 'a number' : 'true or false';
}

/**
 * The text of a value inside longer text, in `command`, `args`, `env` and scripts: text as it is, numbers in
 * their shortest form, `true` and `false`, null as nothing, lists and maps as JSON with sorted keys (as Porter
 * prints an object parameter).
 */
export function stringify(value: Json): string {
  if (typeof value === 'string') return value;
  if (value === null) return '';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return canonicalJson(value);
}

/** Compact JSON with keys in code-unit order, so that equal values give equal text. */
export function canonicalJson(value: Json): string {
  return JSON.stringify(value, (_key, item: unknown) => {
    if (typeof item !== 'object' || item === null || Array.isArray(item)) return item;
    const entries = Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(entries);
  });
}

/** Equal as JSON values: `1` and `"1"` differ, the order of keys does not count. */
export function sameJson(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  return Array.isArray(a) === Array.isArray(b) && canonicalJson(a) === canonicalJson(b);
}
