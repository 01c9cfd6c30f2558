import type { CredentialSource } from '../settings/index.ts';
import { secretsError } from './errors.ts';

export interface CredentialArgument {
  readonly name: string;
  readonly source: CredentialSource;
}

const FORM = 'write --credential NAME=env:VARIABLE, NAME=path:FILE or NAME=command:COMMAND';

/**
 * `name=env:VAR`, `name=path:FILE` or `name=command:CMD`. Only the first `=` and `:` divide. What stands behind an
 * unknown kind is not repeated in the error: it may be the value itself.
 *
 * @throws SECRET_ARGUMENT
 */
export function parseCredentialArgument(text: string): CredentialArgument {
  const equals = text.indexOf('=');
  if (equals < 1)
    throw secretsError('SECRET_ARGUMENT', '--credential needs a name and a source', { hint: FORM });
  const name = text.slice(0, equals);
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name)) {
    throw secretsError('SECRET_ARGUMENT', `${JSON.stringify(name)} is no name of a credential`, {
      hint: FORM,
    });
  }
  const rest = text.slice(equals + 1);
  const kind = rest.slice(0, Math.max(0, rest.indexOf(':')));
  const what = rest.slice(kind.length + 1);
  if (kind === 'value') {
    throw secretsError(
      'SECRET_ARGUMENT',
      `credential ${name}: a value on the command line is visible to every process of this host`,
      { hint: `put it in a variable or a file: --credential ${name}=env:VARIABLE` },
    );
  }
  if (kind !== 'env' && kind !== 'path' && kind !== 'command') {
    throw secretsError('SECRET_ARGUMENT', `credential ${name}: the source has no known kind`, { hint: FORM });
  }
  if (what === '' || what.includes('\0')) {
    throw secretsError('SECRET_ARGUMENT', `credential ${name}: nothing usable stands behind ${kind}:`, {
      hint: FORM,
    });
  }
  if (kind === 'env') {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(what)) {
      throw secretsError(
        'SECRET_ARGUMENT',
        `credential ${name}: what stands behind env: is no name of a variable`,
        {
          hint: FORM,
        },
      );
    }
    return { name, source: { kind, name: what } };
  }
  return { name, source: kind === 'path' ? { kind, path: what } : { kind, command: what } };
}
