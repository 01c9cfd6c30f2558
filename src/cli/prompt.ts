import { StringDecoder } from 'node:string_decoder';

type Process = Pick<typeof process, 'stdin' | 'stderr' | 'pid' | 'kill'>;

const INTERRUPT = '\u0003';
const END = '\u0004';
const ERASE = new Set(['\u007f', '\b']);

/** Typed ahead: the beginning of the next answer. */
let ahead = '';

/**
 * Asks, and gives the next line of a terminal. Raw mode shows nothing; then Ctrl-C, Ctrl-D and erasing are ours to obey. The stream
 * stays open for the next question.
 *
 * @returns undefined where the input ends instead, or `signal` aborts
 */
export async function readLine(
  proc: Process,
  options: { readonly question: string; readonly hidden: boolean; readonly signal: AbortSignal },
): Promise<string | undefined> {
  const { stdin } = proc;
  const { hidden, signal } = options;
  if (hidden) stdin.setRawMode(true);
  // Not before: whoever sees the question may answer, and must not be shown then.
  proc.stderr.write(`${options.question} `);
  const decoder = new StringDecoder('utf8');
  const line = { text: '', isHidden: hidden };
  const { promise, resolve, reject } = Promise.withResolvers<string | undefined>();
  const stop = (): void => resolve(undefined);
  const take = (text: string): void => {
    const end = read(line, text);
    if (end === undefined) return;
    ahead = end.rest;
    if (end.by === INTERRUPT) proc.kill(proc.pid, 'SIGINT');
    else resolve(end.by === END ? undefined : line.text);
  };
  const hear = (chunk: Uint8Array): void => take(decoder.write(chunk));
  try {
    stdin.on('data', hear).on('end', stop).on('error', reject);
    signal.addEventListener('abort', stop);
    if (signal.aborted || stdin.readableEnded) stop();
    else take(takeAhead());
    stdin.resume();
    return await promise;
  } finally {
    stdin.off('data', hear).off('end', stop).off('error', reject).pause();
    signal.removeEventListener('abort', stop);
    if (hidden) {
      stdin.setRawMode(false);
      proc.stderr.write('\n');
    }
  }
}

function takeAhead(): string {
  const typed = ahead;
  ahead = '';
  return typed;
}

/** Adds what was typed to the line; tells by which key it ended, and what came after that. */
function read(
  line: { text: string; readonly isHidden: boolean },
  typed: string,
): { readonly by: string; readonly rest: string } | undefined {
  let at = 0;
  for (const key of typed) {
    at += key.length;
    const isEnd = key === '\r' || key === '\n' || (line.isHidden && key === INTERRUPT);
    if (isEnd || (line.isHidden && key === END && line.text === ''))
      return { by: key, rest: typed.slice(at) };
    if (line.isHidden && ERASE.has(key)) line.text = [...line.text].slice(0, -1).join('');
    else if (!line.isHidden || key !== END) line.text += key;
  }
  return undefined;
}
