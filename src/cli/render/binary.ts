import { shellWord } from '../../kernel/index.ts';

/** In place of bytes that are no text. */
export function binaryCell(name: string, bytes: number): string {
  return `${bytes} bytes, binary: skycap output show ${shellWord(name)} > FILE`;
}
