import { realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { isSkycapError } from '../../../kernel/index.ts';
import { ensurePrivateDirectory, writeFileAtomic } from '../../../kernel/system/index.ts';
import { ociError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../image/json.ts';
import { isRegistryHost, quoted } from '../../names/index.ts';
import { type Turn, takeTurnSoon } from '../../store/turn.ts';
import { hasEntry, helpersFor, hostNames, invalid, normalKey, serverName, withEntry } from './auth-file.ts';
import { helperErase, helperStore } from './helper.ts';
import { type AuthLocation, authLocations, helpersOf, loginLocation } from './locations.ts';
import { readAuthFile } from './provider.ts';
import { AUTH_FILES, type CredentialsEnvironment, type LoginEntry } from './types.ts';

export interface StoreOptions {
  readonly environment: CredentialsEnvironment;
  readonly signal: AbortSignal;
}

/** Where a credential ended up or was. */
export interface Stored {
  /** `file` keeps it readable for whoever can read the file. */
  readonly kind: 'file' | 'helper';
  readonly where: string;
}

/**
 * Keeps a credential where Docker would: with the helper that is configured for the host, else in the file (mode
 * 0600, written whole or not at all, what else is in it kept). Where `helpers` are given, with the first of them that
 * takes it. Does not ask the registry whether it is right.
 *
 * @param host `host[:port]`
 * @throws CREDENTIALS_FILE_INVALID, CREDENTIALS_HELPER_FAILED, REFERENCE_INVALID
 */
export async function storeCredential(
  host: string,
  entry: LoginEntry,
  options: StoreOptions,
): Promise<Stored> {
  const name = checkHost(host);
  if (entry.username.includes(':')) {
    throw ociError('CREDENTIALS_FILE_INVALID', 'a user name cannot hold a colon', {
      hint: 'check the user name',
    });
  }
  let failure: { readonly error: unknown } | undefined;
  for (const helper of helpersOf(options.environment)) {
    try {
      return helper === AUTH_FILES
        ? await storeInFile(name, entry, options)
        : await storeWith(helper, { name, entry }, options);
    } catch (error) {
      options.signal.throwIfAborted();
      failure ??= { error };
    }
  }
  throw failure?.error;
}

async function storeWith(
  helper: string,
  { name, entry }: { readonly name: string; readonly entry: LoginEntry },
  { environment: { env }, signal }: StoreOptions,
): Promise<Stored> {
  await helperStore(helper, serverName(name), { env, signal, entry });
  return { kind: 'helper', where: `docker-credential-${helper}` };
}

async function storeInFile(name: string, entry: LoginEntry, options: StoreOptions): Promise<Stored> {
  const location = loginLocation(options.environment);
  const file = (await readAuthFile(location)) ?? {};
  const helper = helpersFor(file, name, location.path)[0];
  if (helper !== undefined) {
    const kept = await storeWith(helper, { name, entry }, options);
    // An empty entry is how Docker remembers that it is logged in; a secret from before goes.
    await change(location, options.signal, (now) => withEntry(now, name, {}));
    return kept;
  }
  const auth = Buffer.from(`${entry.username}:${entry.secret}`).toString('base64');
  await change(location, options.signal, (now) => withEntry(now, name, { auth }));
  return { kind: 'file', where: location.path };
}

/**
 * Removes what any of the files or their helpers keeps for the host; empty where nothing was. Where one of them fails
 * the others are gone through all the same, and the first failure is thrown at the end.
 *
 * @throws CREDENTIALS_FILE_INVALID, CREDENTIALS_HELPER_FAILED, REFERENCE_INVALID
 */
export async function eraseCredential(host: string, options: StoreOptions): Promise<readonly Stored[]> {
  const name = checkHost(host);
  const { env } = options.environment;
  const { signal } = options;
  const removed: Stored[] = [];
  const failures: { readonly error: unknown }[] = [];
  const attempt = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      signal.throwIfAborted();
      failures.push({ error });
    }
  };
  const eraseWith = async (helper: string): Promise<void> => {
    if (await helperErase(helper, serverName(name), { env, signal }))
      removed.push({ kind: 'helper', where: `docker-credential-${helper}` });
  };
  const eraseFrom = async (location: AuthLocation): Promise<void> => {
    const file = await readAuthFile(location);
    if (file === undefined) return;
    await attempt(async () => {
      const helper = helpersFor(file, name, location.path)[0];
      if (helper !== undefined) await eraseWith(helper);
    });
    if (!hasEntry(file, name)) return;
    await change(location, signal, (now) => withEntry(now, name, undefined));
    removed.push({ kind: 'file', where: location.path });
  };
  for (const helper of helpersOf(options.environment))
    if (helper !== AUTH_FILES) await attempt(() => eraseWith(helper));
  for (const location of authLocations(options.environment)) await attempt(() => eraseFrom(location));
  if (failures[0] !== undefined) throw failures[0].error;
  return removed;
}

function checkHost(host: string): string {
  const bare = normalKey(host);
  if (isRegistryHost(bare)) return hostNames(bare).includes('docker.io') ? 'docker.io' : bare;
  throw ociError('REFERENCE_INVALID', `${quoted(host)} is not a registry`, {
    hint: 'write host[:port], e.g. ghcr.io',
  });
}

async function takeLock(path: string, signal: AbortSignal): Promise<Turn> {
  const folder = join(dirname(path), `.${basename(path)}.skycap-lock`);
  const taken = await takeTurnSoon(folder, signal);
  if (taken.turn !== undefined) return taken.turn;
  if (taken.busy === undefined) throw invalid(path, 'it cannot be locked');
  throw ociError('CREDENTIALS_FILE_INVALID', `${folder} has been locked for ${taken.busy} seconds`, {
    hint: 'end the other login; with none, remove it, or use a file on a file system with locks (DOCKER_CONFIG)',
    place: { file: folder },
  });
}

/** Reads and writes in one turn: another process may be logging in elsewhere, into the same file. */
async function change(
  location: AuthLocation,
  signal: AbortSignal,
  edit: (now: JsonObject) => JsonObject,
): Promise<void> {
  try {
    await ensurePrivateDirectory(dirname(location.path));
    // Many keep their configuration elsewhere and a link here; the link stays.
    const path = await realpath(location.path).catch(() => location.path);
    await using _turn = await takeLock(path, signal);
    const file = edit((await readAuthFile(location)) ?? {});
    const content = location.kind === 'legacy' ? file.auths : file;
    if (!isObject(content)) return;
    const text = `${JSON.stringify(content, undefined, '\t')}\n`;
    await writeFileAtomic(path, text, { mode: 0o600, sweep: true });
  } catch (error) {
    if (isSkycapError(error)) throw error;
    const { code } = error as { code?: string };
    throw invalid(location.path, `it cannot be written (${code ?? 'unknown reason'})`);
  }
}
