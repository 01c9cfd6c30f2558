export type HttpFailureKind =
  /** Name look-up. */
  | 'dns'
  /** Refused, unreachable, no such socket. */
  | 'connect'
  | 'tls'
  /** The address check said no. */
  | 'address'
  | 'proxy'
  | 'timeout'
  /** The connection broke after it was made. */
  | 'reset'
  /** The answer is not HTTP, or its head is too long. */
  | 'protocol'
  | 'too-large';

/** What went wrong below the level of a status code. Rooms turn it into an error with a code and a hint. */
export class HttpFailure extends Error {
  readonly kind: HttpFailureKind;
  /** errno or OpenSSL name, e.g. `ECONNREFUSED`. */
  readonly code?: string;

  constructor(kind: HttpFailureKind, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'HttpFailure';
    this.kind = kind;
    const code = errnoOf(cause);
    if (code !== undefined) this.code = code;
  }

  /** True where the same request may well succeed a moment later. */
  get transient(): boolean {
    return (
      this.kind === 'timeout' || this.kind === 'reset' || this.kind === 'connect' || this.code === 'EAI_AGAIN'
    );
  }
}

export function isHttpFailure(value: unknown, kind?: HttpFailureKind): value is HttpFailure {
  return value instanceof HttpFailure && (kind === undefined || value.kind === kind);
}

function errnoOf(cause: unknown): string | undefined {
  if (typeof cause !== 'object' || cause === null) return undefined;
  const code = (cause as { code?: unknown }).code;
  return typeof code === 'string' ? code : undefined;
}

const CONNECT = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ETIMEDOUT',
  'ENOENT',
  'EACCES',
  'EADDRNOTAVAIL',
  'EHOSTDOWN',
  'ENETDOWN',
]);
const DNS = new Set(['ENOTFOUND', 'EAI_AGAIN', 'EAI_FAIL', 'EAI_NONAME', 'EAI_NODATA']);

/** @param where named in the message, e.g. `http://localhost:5000` */
export function failureFrom(error: unknown, where: string): HttpFailure {
  if (error instanceof HttpFailure) return error;
  const inner =
    error instanceof AggregateError && error.errors.length > 0 ? (error.errors[0] as unknown) : error;
  const code = errnoOf(inner) ?? '';
  const text = inner instanceof Error ? inner.message : String(inner);
  if (DNS.has(code)) return new HttpFailure('dns', `${where}: host name not found`, inner);
  if (CONNECT.has(code)) return new HttpFailure('connect', `${where}: cannot connect (${code})`, inner);
  if (
    code.startsWith('ERR_TLS') ||
    code.startsWith('ERR_SSL') ||
    code.includes('CERT') ||
    code.includes('SIGNATURE') ||
    code === 'EPROTO'
  ) {
    return new HttpFailure('tls', `${where}: TLS failed (${code})`, inner);
  }
  if (code.startsWith('HPE_'))
    return new HttpFailure('protocol', `${where}: the answer is not HTTP (${code})`, inner);
  return new HttpFailure('reset', `${where}: connection lost (${code === '' ? text : code})`, inner);
}
