import type { CredentialSource } from '../settings/index.ts';

export { type CredentialArgument, parseCredentialArgument } from './argument.ts';
export { secretsError } from './errors.ts';
export type { ResolveOptions } from './resolve.ts';

/** Who named a source. A record is a bundle's or an installation's: something that others may have written. */
export type SourceOrigin = 'flag' | 'terminal' | 'configuration' | 'record';

/**
 * Kinds of sources that may be named there (docs/security.md, "Where power comes from"): only the person at the
 * keyboard may point at files, variables and commands of this host.
 */
export function allowedSources(origin: SourceOrigin): ReadonlySet<CredentialSource['kind']> {
  return new Set(origin === 'record' ? ['value'] : ['env', 'path', 'command', 'value']);
}

/** Loads `resolveCredential`, which reads files and starts commands. */
export function loadSecrets(): Promise<typeof import('./resolve.ts')> {
  return import('./resolve.ts');
}
