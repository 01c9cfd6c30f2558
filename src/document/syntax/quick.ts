import type { ParsedDocument, ParseOptions } from '../document.ts';
import { linesOf } from '../lines.ts';
import { parsePlainYaml } from './fast.ts';

/** Longer files go to the library, which counts what it makes. */
const PLAIN_LENGTH = 256 * 1024;

/** A document in the part of YAML that needs no library; undefined where it may be more than that, or wrong. */
export function parseQuickly(source: string, options: ParseOptions): ParsedDocument | undefined {
  const root = source.length <= PLAIN_LENGTH ? parsePlainYaml(source) : undefined;
  if (root === undefined) return undefined;
  // Cut-off expressions (` #` within one) are found on the library's way only, and such a file may be plain.
  if (source.includes(' #') && /\$\{[^}\n]*\s#|\{\{[^}\n]*\s#/.test(source)) return undefined;
  return { file: options.file, source, lines: linesOf(source), root, problems: [] };
}
