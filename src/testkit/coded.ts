import { isSkycapError } from '../kernel/index.ts';

/** The code of an error of ours, which has to say something, and where it has a hint say what to do. */
export function codeFrom(error: unknown): string {
  if (!isSkycapError(error)) return `not coded: ${String(error)}`;
  const mute = [error.message, error.hint].some((text) => text?.trim() === '');
  return mute ? `${error.code} without words` : error.code;
}
