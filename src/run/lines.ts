import { StringDecoder } from 'node:string_decoder';

const longestLine = 1024 * 1024;

/**
 * Cuts a byte stream into lines for events, each with its line break, the rest at the end. A character that
 * two chunks share is put together again; a line beyond 1 MiB is handed on in pieces so that memory stays bounded.
 */
export class LineSplitter {
  readonly #decoder = new StringDecoder('utf8');
  /** The begin of a line. Joined only when it is handed on: a long line comes in very many pieces. */
  #rest: string[] = [];
  #length = 0;

  write(chunk: Uint8Array): readonly string[] {
    return this.#take(this.#decoder.write(chunk as Buffer));
  }

  end(): readonly string[] {
    const lines = [...this.#take(this.#decoder.end())];
    if (this.#length > 0) lines.push(this.#joined(''));
    return lines;
  }

  #take(text: string): readonly string[] {
    const lines: string[] = [];
    let start = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
      lines.push(this.#joined(text.slice(start, end + 1)));
      start = end + 1;
    }
    this.#keep(text.slice(start));
    while (this.#length > longestLine) {
      const rest = this.#joined('');
      const cut = isHigh(rest.charCodeAt(longestLine - 1)) ? longestLine - 1 : longestLine;
      lines.push(rest.slice(0, cut));
      this.#keep(rest.slice(cut));
    }
    return lines;
  }

  #keep(text: string): void {
    if (text === '') return;
    this.#rest.push(text);
    this.#length += text.length;
  }

  #joined(last: string): string {
    const line = this.#length === 0 ? last : [...this.#rest, last].join('');
    this.#rest = [];
    this.#length = 0;
    return line;
  }
}

/** The first half of a character beyond the basic plane: a cut behind it would spoil both halves. */
function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}
