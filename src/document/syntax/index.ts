import type { ParsedDocument, ParseOptions } from '../document.ts';
import { linesOf } from '../lines.ts';
import { parsePlainYaml } from './fast.ts';
import { parseWithLibrary } from './yaml.ts';

/** What needs the YAML library; rooms that are themselves loaded late import it, others call `loadDocument()`. */
export { parseJson } from './json.ts';

/** Longer files go to the library, which counts what it makes. */
const PLAIN_LENGTH = 256 * 1024;

/**
 * Reads one YAML 1.2 document (core schema, with the merge key of 1.1 that Porter's parser knows too).
 * Never throws: whatever is wrong stands in `problems`. Aliases are followed; their expansion is limited.
 */
export function parseYaml(source: string, options: ParseOptions): ParsedDocument {
  const root = source.length <= PLAIN_LENGTH ? parsePlainYaml(source) : undefined;
  if (root === undefined) return parseWithLibrary(source, options);
  // Cut-off expressions (` #` within one) are found on the library's way only, and such a file may be plain.
  if (source.includes(' #') && /\$\{[^}\n]*\s#|\{\{[^}\n]*\s#/.test(source))
    return parseWithLibrary(source, options);
  return { file: options.file, source, lines: linesOf(source), root, problems: [] };
}
