import { isUtf8 } from 'node:buffer';

/**
 * Where text that is meant to be UTF-8 (RFC 3629) begins to be none, counted from 1; undefined where all of it is. Node
 * puts U+FFFD in place of such bytes, and then nobody sees that they were others.
 */
export function notUtf8At(bytes: Buffer): { readonly line: number; readonly column: number } | undefined {
  if (isUtf8(bytes)) return undefined;
  const shown = Buffer.from(bytes.toString('utf8'));
  let at = 0;
  while (at < bytes.length && bytes[at] === shown[at]) at++;
  const lines = bytes.subarray(0, at).toString('utf8').split('\n');
  return { line: lines.length, column: (lines.at(-1) as string).length + 1 };
}
