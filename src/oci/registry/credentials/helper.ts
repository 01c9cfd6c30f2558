import { isSkycapError } from '../../../kernel/index.ts';
import { type ProcessResult, runProcess } from '../../../kernel/system/index.ts';
import { ociError } from '../../errors.ts';
import { isObject } from '../../image/json.ts';
import { quoted } from '../../names/index.ts';
import type { Credential } from '../client/types.ts';
import type { LoginEntry } from './types.ts';

const PATIENCE_MS = 60_000;
const NOT_FOUND = /credentials not found/i;

export interface HelperOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

type Verb = 'get' | 'store' | 'erase';

/** github.com/docker/docker-credential-helpers, "Development": the server on standard input, JSON back. */
export async function helperGet(
  helper: string,
  server: string,
  options: HelperOptions,
): Promise<Credential | undefined> {
  const result = await run(helper, 'get', { ...options, input: server });
  if (result.exitCode !== 0) {
    if (isNotFound(result)) return undefined;
    throw failed(helper, 'get', result);
  }
  let value: unknown;
  try {
    value = JSON.parse(result.stdout.toString('utf8'));
  } catch {
    throw broken(helper, 'its answer is not JSON');
  }
  const { Username: username, Secret: secret } = isObject(value)
    ? (value as { Username?: unknown; Secret?: unknown })
    : {};
  if (typeof username !== 'string' || typeof secret !== 'string')
    throw broken(helper, 'its answer lacks Username or Secret');
  if (secret === '') return undefined;
  if (username === '<token>') return { kind: 'identity-token', token: secret };
  return { kind: 'basic', username, password: secret };
}

export async function helperStore(
  helper: string,
  server: string,
  options: HelperOptions & { readonly entry: LoginEntry },
): Promise<void> {
  const input = JSON.stringify({
    ServerURL: server,
    Username: options.entry.username,
    Secret: options.entry.secret,
  });
  const result = await run(helper, 'store', { ...options, input });
  if (result.exitCode !== 0) throw failed(helper, 'store', result);
}

/** False where there was nothing to erase. */
export async function helperErase(helper: string, server: string, options: HelperOptions): Promise<boolean> {
  const result = await run(helper, 'erase', { ...options, input: server });
  if (result.exitCode === 0) return true;
  if (isNotFound(result)) return false;
  throw failed(helper, 'erase', result);
}

async function run(
  helper: string,
  verb: Verb,
  options: HelperOptions & { readonly input: string },
): Promise<ProcessResult> {
  const program = `docker-credential-${helper}`;
  const timeoutMs = options.timeoutMs ?? PATIENCE_MS;
  const env = Object.fromEntries(
    Object.entries(options.env).filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
  // A child of the helper may keep its output open, so the helper's own end is not waited for.
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), timeoutMs);
  const stop = AbortSignal.any([options.signal, late.signal]);
  const gone = new Promise<never>((_, reject) => {
    stop.addEventListener(
      'abort',
      () =>
        reject(
          options.signal.aborted
            ? (options.signal.reason as Error)
            : broken(helper, `it did not answer within ${timeoutMs} ms`),
        ),
      { once: true },
    );
  });
  gone.catch(() => {});
  try {
    const running = runProcess(program, [verb], { input: options.input, env, signal: stop });
    running.catch(() => {});
    return await Promise.race([running, gone]);
  } catch (error) {
    if (!isSkycapError(error, 'PROGRAM_MISSING')) throw error;
    throw ociError('CREDENTIALS_HELPER_FAILED', `the credential helper ${program} is not installed`, {
      hint: `install ${program}, or remove it from the credentials file`,
      cause: error,
    });
  } finally {
    clearTimeout(timer);
  }
}

function isNotFound(result: ProcessResult): boolean {
  return NOT_FOUND.test(result.stdout.toString('utf8')) || NOT_FOUND.test(result.stderr.toString('utf8'));
}

/** Only standard error is shown: on the other stream a helper gives secrets. */
function failed(helper: string, verb: Verb, result: ProcessResult): Error {
  const said = result.stderr.toString('utf8').trim().split('\n')[0] ?? '';
  return broken(
    helper,
    `${verb} ended with exit code ${result.exitCode}${said === '' ? '' : `, ${quoted(said)}`}`,
  );
}

function broken(helper: string, problem: string): Error {
  return ociError(
    'CREDENTIALS_HELPER_FAILED',
    `the credential helper docker-credential-${helper} failed: ${problem}`,
    {
      hint: `run it by hand: echo SERVER | docker-credential-${helper} get`,
    },
  );
}
