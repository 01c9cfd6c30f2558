/** `503us`, `1.5s`, `1m30s`: Go's durations, in milliseconds. */
function goDuration(text: string): number | undefined {
  const units: Record<string, number> = {
    ns: 1e-6,
    us: 1e-3,
    µs: 1e-3,
    μs: 1e-3,
    ms: 1,
    s: 1000,
    m: 60_000,
    h: 3_600_000,
  };
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h)/g)];
  if (parts.length === 0 || parts.map((part) => part[0]).join('') !== text) return undefined;
  return parts.reduce((sum, part) => sum + Number(part[1]) * (units[part[2] as string] ?? 0), 0);
}

/**
 * How long the peer asks us to wait, in milliseconds: `Retry-After` in seconds or as a date (RFC 9110, 10.2.3), else
 * the text `retry-after: 92.5µs` that GHCR puts into its message.
 */
export function retryAfter(header: string | undefined, body: string, now: number): number | undefined {
  const value = header?.trim() ?? '';
  if (/^\d+(\.\d+)?$/.test(value)) return Number(value) * 1000;
  const date = value === '' ? Number.NaN : Date.parse(value);
  if (!Number.isNaN(date)) return Math.max(date - now, 0);
  const inText = /retry-after:\s*([0-9.a-zµμ]+)/i.exec(body)?.[1];
  return inText === undefined ? undefined : goDuration(inText);
}

export interface RetryPolicy {
  /** Tries in all. */
  readonly attempts: number;
  /** From the first try to the start of the last, in milliseconds. */
  readonly deadlineMs: number;
  readonly firstDelayMs: number;
  readonly longestDelayMs: number;
}

export const RETRY: RetryPolicy = {
  attempts: 6,
  deadlineMs: 120_000,
  firstDelayMs: 250,
  longestDelayMs: 15_000,
};

/** Exponential with jitter over the upper half; never shorter than what the peer asked for. */
export function backOff(
  policy: RetryPolicy,
  attempt: number,
  options: { readonly asked: number | undefined; readonly random: number },
): number {
  const ceiling = Math.min(policy.firstDelayMs * 2 ** attempt, policy.longestDelayMs);
  const own = ceiling * (0.5 + options.random / 2);
  return Math.max(own, options.asked ?? 0);
}

const TRANSIENT = new Set([408, 425, 429, 500, 502, 503, 504]);

export function isTransientStatus(status: number): boolean {
  return TRANSIENT.has(status);
}
