/**
 * Step output arrives in pieces; a line is shown whole, so that lines of parallel steps never mix. What is left
 * without a line feed is shown when its step ends.
 */
export class LineBuffer {
  readonly #rest = new Map<string, string>();

  add(key: string, text: string): string[] {
    const lines = ((this.#rest.get(key) ?? '') + text).split('\n');
    const rest = lines.pop() ?? '';
    if (rest === '') {
      this.#rest.delete(key);
    } else {
      this.#rest.set(key, rest);
    }
    return lines.map(lastWritten);
  }

  flush(key: string): string[] {
    const rest = this.#rest.get(key);
    this.#rest.delete(key);
    return rest === undefined ? [] : [lastWritten(rest)];
  }
}

/** Progress bars rewrite their line with carriage returns: what a terminal would show at the end is the last part. */
function lastWritten(line: string): string {
  const text = line.endsWith('\r') ? line.slice(0, -1) : line;
  return text.slice(text.lastIndexOf('\r') + 1);
}
