import { isSkycapError } from '../kernel/index.ts';

/**
 * The code of an error of ours, which has to say something, and where it has a hint say what to do. What refuses a
 * layer says what is wrong with it behind fixed words, and always has a hint.
 */
export function codeFrom(error: unknown): string {
  if (!isSkycapError(error)) return `not coded: ${String(error)}`;
  const { code, message, hint } = error;
  const refuses = /^OCI_LAYER_(INVALID|UNSAFE|LIMIT)$/.test(code);
  const half = refuses && (hint === undefined || /^the layer (has|is [^:]*:) *$/.test(message));
  const mute = [message, hint].some((text) => text?.trim() === '');
  return mute || half ? `${code} without words` : code;
}
