let made: Intl.Segmenter | undefined;

/** Made when first needed: it loads tables for some 15 ms, which plain text never pays. */
function segments(text: string): Intl.Segments {
  made ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  return made.segment(text);
}

/** Columns of a terminal that a text without controls takes: wide East Asian letters and emoji take two. */
export function displayWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) {
    return text.length;
  }
  let width = 0;
  for (const { segment } of segments(text)) {
    width += segmentWidth(segment);
  }
  return width;
}

function segmentWidth(segment: string): number {
  if (/^[\p{Mark}\p{Cf}]+$/u.test(segment)) {
    return 0;
  }
  return isWide(segment.codePointAt(0) ?? 0) || /\p{Emoji_Presentation}|\ufe0f/u.test(segment) ? 2 : 1;
}

/** Unicode East Asian Width, W and F, as ranges broad enough for a terminal. */
function isWide(code: number): boolean {
  return (
    (code >= 0x1100 && code <= 0x115f) ||
    (code >= 0x2e80 && code <= 0xa4cf && code !== 0x303f) ||
    (code >= 0xac00 && code <= 0xd7a3) ||
    (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xfe30 && code <= 0xfe6f) ||
    (code >= 0xff00 && code <= 0xff60) ||
    (code >= 0xffe0 && code <= 0xffe6) ||
    (code >= 0x1f300 && code <= 0x1faff) ||
    (code >= 0x20000 && code <= 0x3fffd)
  );
}

/** At most `width` columns, with `…` at the end of a text that was cut. */
export function truncate(text: string, width: number): string {
  if (displayWidth(text) <= width) {
    return text;
  }
  let result = '';
  let used = 0;
  for (const { segment } of segments(text)) {
    const next = segmentWidth(segment);
    if (used + next > width - 1) {
      break;
    }
    result += segment;
    used += next;
  }
  return width < 1 ? '' : `${result}…`;
}

export function padEnd(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - displayWidth(text)));
}
