import type { ParsedDocument, ParseOptions } from '../document.ts';
import { parseQuickly } from './quick.ts';
import { parseWithLibrary } from './yaml.ts';

/** What needs the YAML library; rooms that are themselves loaded late import it, others call `loadDocument()`. */
export { parseJson } from './json.ts';

/**
 * Reads one YAML 1.2 document (core schema, with the merge key of 1.1 that Porter's parser knows too).
 * Never throws: whatever is wrong stands in `problems`. Aliases are followed; their expansion is limited.
 */
export function parseYaml(source: string, options: ParseOptions): ParsedDocument {
  return parseQuickly(source, options) ?? parseWithLibrary(source, options);
}
