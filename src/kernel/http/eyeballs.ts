import type { LookupAddress } from 'node:dns';
import type { LookupFunction, Socket } from 'node:net';
import { HttpFailure } from './failure.ts';

/** RFC 8305, 5: how long one attempt is alone before the next begins beside it. */
const ATTEMPT_DELAY_MS = 250;

export interface RaceSettings {
  readonly lookup: LookupFunction;
  /** Of all attempts together, the name look-up included; 0 for none. */
  readonly connectMs: number;
  /** Begins one attempt. */
  readonly attempt: (address: LookupAddress) => Socket;
}

/**
 * A connection to whichever address of a name answers first (RFC 8305, "Happy Eyeballs"): families take turns, an
 * attempt goes on while the next one runs beside it, and one that fails makes way at once. Node's own way ends each
 * attempt but the last after 250 ms, so that of several far addresses none might ever be reached.
 *
 * @returns what ends the race; nothing is called after that
 */
export function race(
  host: string,
  settings: RaceSettings,
  done: (error: Error | null, socket?: Socket) => void,
): () => void {
  const running = new Set<Socket>();
  let waiting: LookupAddress[] = [];
  let firstError: Error | undefined;
  let next: NodeJS.Timeout | undefined;
  let over = false;

  function finish(error: Error | null, winner?: Socket): void {
    if (over) return;
    over = true;
    clearTimeout(next);
    clearTimeout(deadline);
    for (const socket of running) if (socket !== winner) socket.destroy();
    done(error, winner);
  }

  function begin(): void {
    clearTimeout(next);
    const address = waiting.shift();
    if (address === undefined) return;
    let socket: Socket;
    try {
      socket = settings.attempt(address);
    } catch (error) {
      // What cannot even be begun on one address cannot on another.
      finish(error as Error);
      return;
    }
    running.add(socket);
    const fail = (error: Error): void => {
      running.delete(socket);
      firstError ??= error;
      if (over) return;
      if (waiting.length > 0) begin();
      else if (running.size === 0) finish(firstError);
    };
    // Stays for those that lose: what they still have to say interests nobody.
    socket.on('error', fail);
    socket.once('connect', () => {
      socket.off('error', fail);
      finish(null, socket);
    });
    if (waiting.length > 0) next = setTimeout(begin, ATTEMPT_DELAY_MS);
  }

  const deadline =
    settings.connectMs === 0
      ? undefined
      : setTimeout(() => {
          finish(new HttpFailure('timeout', `no connection within ${settings.connectMs} ms`));
        }, settings.connectMs);
  settings.lookup(host, { all: true }, (error, addresses) => {
    if (error !== null) return finish(error);
    waiting = inTurns(addresses as LookupAddress[]);
    if (!over) begin();
  });
  return () => finish(new HttpFailure('reset', 'cancelled'));
}

/** RFC 8305, 4: the resolver's order, but one address of each family after the other. */
export function inTurns(addresses: readonly LookupAddress[]): LookupAddress[] {
  const first = addresses.filter(({ family }) => family === addresses[0]?.family);
  const second = addresses.filter(({ family }) => family !== addresses[0]?.family);
  const longest = Math.max(first.length, second.length);
  return Array.from({ length: longest }, (_, index) => [first[index], second[index]])
    .flat()
    .filter((entry) => entry !== undefined);
}
