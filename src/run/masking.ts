import type { Emit, Redactor } from '../kernel/index.ts';
import type { KnownValue } from '../plan/index.ts';
import type { RunEvent } from './events.ts';

/**
 * From here on the value is masked (docs/security.md, S21): exactly as it is and, where it is an object or a list,
 * in each of its parts, which expressions can read. The run says what is too short or a boolean.
 */
export function maskValue(
  redactor: Redactor,
  value: Pick<KnownValue, 'json' | 'bytes'> & { readonly name: string },
  emit: Emit<RunEvent>,
): void {
  const { name, json, bytes } = value;
  const before = redactor.unmasked.length;
  if (typeof json === 'object' && json !== null) redactor.add({ name, value: json });
  redactor.add({ name, value: typeof json === 'boolean' ? json : bytes });
  if (redactor.unmasked.length === before) return;
  emit({
    type: 'warning',
    code: 'value-not-masked',
    message: `too short to be masked in the steps' output: ${redactor.unmasked.slice(before).join(', ')}`,
  });
}
