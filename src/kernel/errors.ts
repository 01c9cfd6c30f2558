import { clipNames } from './text.ts';

/** Where in a file something is wrong; lines and columns count from 1. */
export interface Place {
  readonly file: string;
  readonly line?: number;
  readonly column?: number;
  /** The line in question with a caret under the column. */
  readonly excerpt?: string;
}

export interface ErrorSpec {
  /** Process exit code, in the decade of the room (docs/architecture.md, "What a value looks like"). */
  readonly exit: number;
  /** One sentence for the page of error codes. */
  readonly summary: string;
}

export interface ErrorExtras {
  /** What to do next, as an imperative sentence without full stop. */
  readonly hint?: string;
  readonly place?: Place;
  readonly cause?: unknown;
  /** JSON-safe facts for machines; never a secret. */
  readonly details?: Readonly<Record<string, unknown>>;
}

const MARK = Symbol.for('skycap.error');

/** An error that a user can meet. Programmer errors stay plain `Error`. */
export class SkycapError extends Error {
  readonly code: string;
  readonly exitCode: number;
  readonly hint: string | undefined;
  readonly place: Place | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly [MARK] = true;

  constructor(code: string, exitCode: number, message: string, extras: ErrorExtras = {}) {
    super(clipNames(message), extras.cause === undefined ? undefined : { cause: extras.cause });
    this.name = 'SkycapError';
    this.code = code;
    this.exitCode = exitCode;
    this.hint = extras.hint === undefined ? undefined : clipNames(extras.hint);
    this.place = extras.place;
    this.details = extras.details;
  }

  toJSON(): Record<string, unknown> {
    return {
      code: this.code,
      message: this.message,
      ...(this.hint === undefined ? {} : { hint: this.hint }),
      ...(this.place === undefined ? {} : { place: this.place }),
      ...(this.details === undefined ? {} : { details: this.details }),
    };
  }
}

/** True for our own errors, also when they come from another copy of this module. */
export function isSkycapError(value: unknown, code?: string): value is SkycapError {
  return (
    typeof value === 'object' &&
    value !== null &&
    (value as { [MARK]?: boolean })[MARK] === true &&
    (code === undefined || (value as SkycapError).code === code)
  );
}

export type ErrorTable = Readonly<Record<string, ErrorSpec>>;

export interface ErrorFactory<T extends ErrorTable> {
  (code: keyof T & string, message: string, extras?: ErrorExtras): SkycapError;
  readonly table: T;
}

/**
 * One table of codes per room; the page of error codes is made from these.
 *
 * @example
 * export const stateError = errorTable({ STATE_LOCKED: { exit: 61, summary: 'another action holds the lock' } });
 * throw stateError('STATE_LOCKED', `installation ${name} is busy`, { hint: 'wait for run ${run}' });
 */
export function errorTable<T extends ErrorTable>(table: T): ErrorFactory<T> {
  const make = (code: keyof T & string, message: string, extras?: ErrorExtras): SkycapError =>
    new SkycapError(code, (table[code] as ErrorSpec).exit, message, extras);
  return Object.assign(make, { table });
}

/** The codes that belong to no room. */
export const kernelError = errorTable({
  INTERNAL: { exit: 1, summary: 'a fault of Skycap itself' },
  USAGE: { exit: 2, summary: 'a flag, argument or setting is wrong' },
  NOT_SUPPORTED: { exit: 2, summary: 'a flag or verb of Porter that Skycap does not have' },
  CANCELLED: { exit: 130, summary: 'cancelled by signal' },
  DISK_FULL: { exit: 62, summary: 'no space left where Skycap had to write' },
  FILE_UNREADABLE: { exit: 2, summary: 'a file named by the user cannot be read' },
  PROGRAM_MISSING: { exit: 40, summary: 'a program that is needed is not installed' },
});
