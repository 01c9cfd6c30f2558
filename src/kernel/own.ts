/**
 * The value under a name that a user chose, or undefined. A plain `record[name]` would find `constructor` and
 * `__proto__` in every object.
 */
export function own<T>(record: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
