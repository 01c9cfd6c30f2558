/** The target of `rel="next"` (RFC 8288), as it stands. */
export function nextLink(lines: readonly string[]): string | undefined {
  for (const line of lines) {
    for (const match of line.matchAll(
      /<([^<>]*)>((?:\s*;\s*[^\s=;,]+\s*(?:=\s*(?:"(?:[^"\\]|\\.)*"|[^\s";,]*))?)*)/g,
    )) {
      const rel = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s";,]*))/i.exec(match[2] ?? '');
      const relations = (rel?.[1] ?? rel?.[2] ?? '').toLowerCase().split(/\s+/);
      if (relations.includes('next')) return match[1];
    }
  }
  return undefined;
}
