import { clipNames, escapeLine, escapeTerminal, isSkycapError, type Place } from '../../kernel/index.ts';
import type { Style } from '../types.ts';
import { paint } from './style.ts';

export interface ErrorReport {
  readonly code: string;
  readonly exitCode: number;
  readonly message: string;
  readonly hint?: string;
  readonly place?: Place;
  readonly causes: readonly string[];
  readonly details?: Readonly<Record<string, unknown>>;
  readonly stack?: string;
}

/** Errors of the system that name what was wrong well enough to be told as they are. */
const systemErrors: Readonly<
  Record<string, { readonly code: string; readonly exitCode: number; readonly hint: string }>
> = {
  ENOSPC: {
    code: 'DISK_FULL',
    exitCode: 62,
    hint: 'free some space, for example with skycap image prune, and run the command again',
  },
  EDQUOT: {
    code: 'DISK_FULL',
    exitCode: 62,
    hint: 'free some space or raise the quota, and run the command again',
  },
  EACCES: { code: 'FILE_UNREADABLE', exitCode: 2, hint: 'check the permissions of the file and its folders' },
  EROFS: { code: 'FILE_UNREADABLE', exitCode: 2, hint: 'the file system is read-only: name another folder' },
  EMFILE: { code: 'FILE_UNREADABLE', exitCode: 2, hint: 'raise the limit of open files (ulimit -n)' },
};

/** What is told of a thrown value. Unexpected ones are INTERNAL, and their stack is shown with `--debug` only. */
export function reportOf(error: unknown, debug: boolean): ErrorReport {
  const stack = debug && error instanceof Error && error.stack !== undefined ? { stack: error.stack } : {};
  if (isSkycapError(error)) {
    return {
      code: error.code,
      exitCode: error.exitCode,
      message: error.message,
      ...(error.hint === undefined ? {} : { hint: error.hint }),
      ...(error.place === undefined ? {} : { place: error.place }),
      ...(error.details === undefined ? {} : { details: error.details }),
      causes: causesOf(error),
      ...stack,
    };
  }
  const message = clipNames(error instanceof Error ? error.message : String(error));
  const system = systemErrors[systemCode(error)];
  if (system !== undefined) {
    return { ...system, message, causes: causesOf(error), ...stack };
  }
  return {
    code: 'INTERNAL',
    exitCode: 1,
    message: `unexpected: ${message}`,
    hint: 'this is a fault of skycap: run the command again with --debug and report what it prints',
    causes: causesOf(error),
    ...stack,
  };
}

/** Node's `rmSync` says some of them in words only: `, Unknown error: Too many open files '/path'`. */
function systemCode(error: unknown): string {
  const { code = '', message = '' } = (error ?? {}) as { readonly code?: string; readonly message?: string };
  return code === '' && message.includes(': Too many open files ') ? 'EMFILE' : code;
}

/** What Node adds to a certificate that it does not trust: advice for who starts Node, which nobody here does. */
const nodesAdvice = /; if the root CA is installed locally, try running Node\.js with --use-system-ca$/;

/** Messages of the causes, outermost first, leaving out what the outer message says already. */
function causesOf(error: unknown): string[] {
  const causes: string[] = [];
  let told = error instanceof Error ? error.message : String(error);
  let cause = (error as { cause?: unknown } | null)?.cause;
  while (cause !== undefined && cause !== null && causes.length < 8) {
    const message = clipNames(cause instanceof Error ? cause.message : String(cause)).replace(
      nodesAdvice,
      '',
    );
    if (message !== '' && !told.includes(message)) {
      causes.push(message);
      told = message;
    }
    cause = (cause as { cause?: unknown }).cause;
  }
  return causes;
}

export function renderError(report: ErrorReport, style: Pick<Style, 'color'>): string {
  const lines = [
    `${paint(style, 'red', 'error')} ${paint(style, 'dim', `[${report.code}]`)} ${escapeTerminal(report.message)}`,
  ];
  if (report.place !== undefined) {
    lines.push(`  at ${paint(style, 'cyan', placeName(report.place))}`);
    if (report.place.excerpt !== undefined) {
      lines.push(
        ...escapeTerminal(report.place.excerpt)
          .split('\n')
          .map((line) => `  ${line}`),
      );
    }
  }
  lines.push(...report.causes.map((cause) => `  because ${escapeLine(cause)}`));
  if (report.hint !== undefined) {
    lines.push(`  ${paint(style, 'green', 'hint:')} ${escapeTerminal(report.hint)}`);
  }
  if (report.stack !== undefined) {
    lines.push(paint(style, 'dim', escapeTerminal(report.stack)));
  }
  return `${lines.join('\n')}\n`;
}

export function errorJson(report: ErrorReport): Record<string, unknown> {
  const { causes, ...rest } = report;
  return { error: { ...rest, ...(causes.length === 0 ? {} : { causes }) } };
}

/** `porter.yaml:12:5`, which editors and terminals make a link of. */
export function placeName(place: Place): string {
  return [escapeLine(clipNames(place.file)), place.line, place.column]
    .filter((part) => part !== undefined)
    .join(':');
}
