import { kernelError, type SkycapError } from '../kernel/index.ts';

/** A wrong flag or argument, with what to do. */
export function usage(message: string, hint: string): SkycapError {
  return kernelError('USAGE', message, { hint });
}

/** Something of Porter's that is not there: the reason, and what serves instead. */
export function notSupported(what: string, because: string, use: string): SkycapError {
  return kernelError('NOT_SUPPORTED', `${what} is not supported, because ${because}`, { hint: use });
}
