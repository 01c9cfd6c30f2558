import { readFile } from 'node:fs/promises';
import type { JsonObject } from '../../image/json.ts';
import type { Credential, CredentialsProvider } from '../client/types.ts';
import { type Found, invalid, lookUp, parseAuthFile, serverName } from './auth-file.ts';
import { helperGet } from './helper.ts';
import { type AuthLocation, authLocations, helpersOf } from './locations.ts';
import { AUTH_FILES, type CredentialsEnvironment } from './types.ts';

const LARGEST_FILE = 4 * 1024 * 1024;

/** @throws CREDENTIALS_FILE_INVALID; undefined where there is no such file */
export async function readAuthFile(location: AuthLocation): Promise<JsonObject | undefined> {
  let bytes: Uint8Array;
  try {
    bytes = await readFile(location.path);
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw invalid(location.path, `it cannot be read (${code ?? 'unknown reason'})`);
  }
  if (bytes.length > LARGEST_FILE) throw invalid(location.path, 'it is too large');
  return parseAuthFile(bytes, location);
}

/**
 * Credentials from the files of Docker and Podman and their helpers, looked up when a registry asks for them and
 * kept for the provider's life. A host that none of them knows is anonymous. Of several helpers (`helpers`) one that
 * fails keeps nobody from asking the next; what it said is the error where none of the others knows the host.
 *
 * @throws CREDENTIALS_FILE_INVALID, CREDENTIALS_HELPER_FAILED
 */
export function createCredentialsProvider(environment: CredentialsEnvironment): CredentialsProvider {
  const asked = new Map<string, Promise<Credential | undefined>>();

  async function helper(
    found: Extract<Found, { kind: 'helper' }>,
    signal: AbortSignal,
  ): Promise<Credential | undefined> {
    const key = `${found.helper} ${found.server}`;
    const known = asked.get(key);
    if (known !== undefined) return await known;
    const answer = helperGet(found.helper, found.server, { env: environment.env, signal });
    asked.set(key, answer);
    answer.catch(() => asked.delete(key));
    return await answer;
  }

  async function fromFiles(
    target: { readonly host: string; readonly repository: string },
    signal: AbortSignal,
  ): Promise<Credential | undefined> {
    for (const location of authLocations(environment)) {
      const file = await readAuthFile(location);
      if (file === undefined) continue;
      for (const found of lookUp(file, target, location.path)) {
        const credential = found.kind === 'credential' ? found.credential : await helper(found, signal);
        if (credential !== undefined) return credential;
      }
    }
    return undefined;
  }

  return async (target, { signal }) => {
    let failure: { readonly error: unknown } | undefined;
    for (const name of helpersOf(environment)) {
      try {
        const credential =
          name === AUTH_FILES
            ? await fromFiles(target, signal)
            : await helper({ kind: 'helper', helper: name, server: serverName(target.host) }, signal);
        if (credential !== undefined) return credential;
      } catch (error) {
        signal.throwIfAborted();
        failure ??= { error };
      }
    }
    if (failure !== undefined) throw failure.error;
    return undefined;
  };
}
