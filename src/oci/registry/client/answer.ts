import { type HttpFailure, type HttpResponse, isHttpFailure } from '../../../kernel/http/index.ts';
import type { SkycapError } from '../../../kernel/index.ts';
import { ociError } from '../../errors.ts';
import { quoted } from '../../names/index.ts';

const LARGEST_ERROR = 64 * 1024;

/** The part of an error answer that we look at (distribution-spec, "Error Codes"). */
export interface Refusal {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly codes: readonly string[];
  readonly message: string;
  readonly text: string;
}

/** Reads what an answer with an error status says; often HTML or nothing. Never throws. */
export async function readRefusal(response: HttpResponse): Promise<Refusal> {
  let text = '';
  try {
    text = await response.text(LARGEST_ERROR);
  } catch {
    // The status alone has to do.
  }
  const errors = listOfErrors(text);
  const first = errors[0];
  const said =
    first === undefined ? '' : [first.code, first.message].filter((part) => part !== '').join(': ');
  return {
    status: response.status,
    retryAfter: response.values('retry-after')[0],
    codes: errors.map((error) => error.code),
    message: said === '' ? `status ${response.status}` : `status ${response.status}, ${quoted(said)}`,
    text,
  };
}

function listOfErrors(text: string): { code: string; message: string }[] {
  try {
    const value = JSON.parse(text) as {
      errors?: unknown;
      error?: unknown;
      error_description?: unknown;
      details?: unknown;
    };
    // Token servers answer in OAuth2's form or with `details`.
    if (typeof value.error === 'string')
      return [{ code: value.error, message: stringOf(value.error_description) }];
    if (typeof value.details === 'string') return [{ code: '', message: value.details }];
    if (!Array.isArray(value.errors)) return [];
    return value.errors.slice(0, 20).map((error: { code?: unknown; message?: unknown } | null) => ({
      code: stringOf(error?.code),
      message: stringOf(error?.message),
    }));
  } catch {
    return [];
  }
}

function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

export interface AskedFor {
  /** What was asked, as the user wrote it: `docker.io/library/alpine:3`. */
  readonly subject: string;
  /** `host[:port]` that answered. */
  readonly host: string;
  readonly authenticated: boolean;
  /** What the peer asked us to wait. */
  readonly retryAfterMs?: number | undefined;
}

/** An error answer as an error with a code and a next step. */
export function refusalError(refusal: Refusal, asked: AskedFor): SkycapError {
  const { status } = refusal;
  const { retryAfterMs } = asked;
  const details = {
    status,
    registry: asked.host,
    registryCodes: refusal.codes,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
  const make = (code: Parameters<typeof ociError>[0], hint: string): SkycapError =>
    ociError(code, `${asked.subject}: ${asked.host} answered with ${refusal.message}`, { hint, details });
  if (status === 401) {
    return make(
      'REGISTRY_UNAUTHORIZED',
      asked.authenticated
        ? `check the credentials with: skycap login ${asked.host}`
        : `log in with: skycap login ${asked.host}`,
    );
  }
  if (isRateLimit(refusal)) return make('REGISTRY_BUSY', 'wait, or log in to be allowed more requests');
  if (status === 403)
    return make('REGISTRY_FORBIDDEN', 'ask for access to the repository, or log in as someone who has it');
  if (status === 404)
    return make(
      'REGISTRY_NOT_FOUND',
      'check repository and tag; private repositories often look missing without a login',
    );
  if (status === 405 || status === 501)
    return make('REGISTRY_UNSUPPORTED', 'ask who runs the registry to switch this operation on');
  if (status >= 500) return make('REGISTRY_BUSY', 'try again later, or ask who runs the registry');
  if (status >= 400) return make('REGISTRY_REFUSED', 'read what the registry says above');
  return make(
    'REGISTRY_ANSWER_INVALID',
    'check the registry address, and whether a proxy answers in its place',
  );
}

export function isRateLimit(refusal: Refusal): boolean {
  if (refusal.status === 429) return true;
  if (refusal.status < 400 || refusal.status >= 500) return false;
  // GitHub's registry says so in plain text, without a code.
  return refusal.codes.includes('TOOMANYREQUESTS') || /^\s*toomanyrequests\b/i.test(refusal.text);
}

const NAME_AUTHORITY =
  'name its authority in the configuration (hosts: {HOST: {ca: FILE}}) or in /etc/containers/certs.d/HOST/ca.crt';
/** Where naming an authority is not the whole of it; Node's and OpenSSL's codes. */
const TLS_HINTS: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: `it has signed its certificate itself: if you know it to be the right one, ${NAME_AUTHORITY}`,
  CERT_HAS_EXPIRED:
    'ask who runs the registry for a new certificate, and see that the clock of this host is right',
  CERT_NOT_YET_VALID: 'see that the clock of this host is right, or ask who runs the registry',
  ERR_TLS_CERT_ALTNAME_INVALID: 'ask for it by a name that its certificate is for',
};

/** What went wrong below HTTP as an error with a code and a next step. */
export function failureError(error: unknown, subject: string): unknown {
  if (!isHttpFailure(error)) return error;
  const [code, hint] = describe(error);
  return ociError(code, `${subject}: ${error.message}`, { hint, cause: error });
}

function describe(error: HttpFailure): readonly [Parameters<typeof ociError>[0], string] {
  switch (error.kind) {
    case 'tls':
      // OpenSSL's word for an answer that is no TLS at all.
      if (error.code === 'EPROTO' || error.code === 'ERR_SSL_WRONG_VERSION_NUMBER')
        return [
          'REGISTRY_TLS',
          'it speaks no TLS there; if plain http is meant, mark the registry insecure in the configuration',
        ];
      return ['REGISTRY_TLS', TLS_HINTS[error.code ?? ''] ?? NAME_AUTHORITY];
    case 'address':
      return [
        'REGISTRY_ADDRESS_REFUSED',
        'a registry may not lead to addresses closer than its own; name the host itself if it is meant',
      ];
    case 'too-large':
      return ['REGISTRY_ANSWER_TOO_LARGE', 'ask who runs the registry'];
    case 'protocol':
      return ['REGISTRY_ANSWER_INVALID', 'check the registry address and port'];
    case 'reset':
      return [
        'REGISTRY_TRUNCATED',
        'try again; if it stays, ask who runs the registry or the proxy before it',
      ];
    case 'proxy':
      return ['REGISTRY_UNREACHABLE', 'check HTTP_PROXY, HTTPS_PROXY and NO_PROXY'];
    default:
      return ['REGISTRY_UNREACHABLE', 'check the name, the port and the network'];
  }
}
