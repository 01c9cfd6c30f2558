import { isSkycapError, type Place, SkycapError } from '../kernel/index.ts';

/**
 * Errors of expressions know the expression and not the step: this says which one, and where it stands.
 *
 * @param place where the step stands, asked only after an error
 */
export function inStep<T>(step: string, work: () => T, place?: () => Place): T {
  try {
    return work();
  } catch (cause) {
    if (!isSkycapError(cause) || !cause.code.startsWith('EXPRESSION_') || cause.message.startsWith('step '))
      throw cause;
    const { code, exitCode, hint, details } = cause;
    const at = cause.place ?? place?.();
    throw new SkycapError(code, exitCode, `step ${step}: ${cause.message}`, {
      ...(hint === undefined ? {} : { hint }),
      ...(details === undefined ? {} : { details }),
      ...(at === undefined ? {} : { place: at }),
    });
  }
}
