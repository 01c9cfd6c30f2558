/**
 * So many at once for each key, the others in the order they came. Node's agents keep such a limit only among sockets
 * that are made at once, not among those that a race or a proxy has yet to bring.
 */
export class Turns {
  readonly #limit: number;
  readonly #lines = new Map<string, { taken: number; readonly waiting: (() => void)[] }>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Resolves with what gives the turn back. @throws the signal's reason */
  async take(key: string, signal: AbortSignal | undefined): Promise<() => void> {
    const line = this.#lines.get(key) ?? { taken: 0, waiting: [] };
    this.#lines.set(key, line);
    if (line.taken < this.#limit) line.taken += 1;
    else await inLine(line.waiting, signal);
    let given = false;
    return () => {
      if (given) return;
      given = true;
      const following = line.waiting.shift();
      // A turn that is handed on stays taken.
      if (following !== undefined) following();
      else if (--line.taken === 0) this.#lines.delete(key);
    };
  }
}

function inLine(waiting: (() => void)[], signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      waiting.splice(waiting.indexOf(go), 1);
      reject(signal?.reason as Error);
    };
    const go = (): void => {
      signal?.removeEventListener('abort', leave);
      resolve();
    };
    signal?.addEventListener('abort', leave, { once: true });
    waiting.push(go);
  });
}
