import type { Json } from '../types.ts';

/** Text that is equal for equal JSON values, whatever the order of keys; `1` and `1.0` are one number. */
export function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value as { readonly [key: string]: Json }).sort(([a], [b]) =>
    a < b ? -1 : 1,
  );
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`).join(',')}}`;
}
