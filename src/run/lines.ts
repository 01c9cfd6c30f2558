import { StringDecoder } from 'node:string_decoder';

const longestLine = 1024 * 1024;

/**
 * Cuts a byte stream into lines for events, each with its line break, the rest at the end. A character that
 * two chunks share is put together again; a line beyond 1 MiB is handed on in pieces so that memory stays bounded.
 */
export class LineSplitter {
  readonly #decoder = new StringDecoder('utf8');
  #rest = '';

  write(chunk: Uint8Array): readonly string[] {
    return this.#take(this.#rest + this.#decoder.write(chunk as Buffer));
  }

  end(): readonly string[] {
    const lines = [...this.#take(this.#rest + this.#decoder.end())];
    if (this.#rest !== '') lines.push(this.#rest);
    this.#rest = '';
    return lines;
  }

  #take(text: string): readonly string[] {
    const lines: string[] = [];
    let start = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
      lines.push(text.slice(start, end + 1));
      start = end + 1;
    }
    let rest = text.slice(start);
    while (rest.length > longestLine) {
      lines.push(rest.slice(0, longestLine));
      rest = rest.slice(longestLine);
    }
    this.#rest = rest;
    return lines;
  }
}
