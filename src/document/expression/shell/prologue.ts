import { checkBytes } from '../tree.ts';

/**
 * The assignments that give a bound script its values: one `name='value'` a line, byte for byte the same in sh,
 * dash, bash and busybox ash, whatever the value holds. It belongs between the `#!` line and the script's body.
 *
 * @throws EXPRESSION_BYTES for NUL, or text that is not Unicode.
 */
export function renderPrologue(
  values: readonly { readonly variable: string; readonly value: string }[],
): string {
  return values
    .map(({ variable, value }) => {
      if (!/^[A-Za-z_]\w*$/.test(variable)) throw new Error(`not a variable: ${variable}`);
      checkBytes(value, 'a value of the script');
      return `${variable}=${quoteForShell(value)}\n`;
    })
    .join('');
}

/** A text as one word of any of the shells. */
export function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
