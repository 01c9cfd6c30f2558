import type { ParsedDocument, ParseOptions } from './document.ts';
import { parseQuickly } from './syntax/quick.ts';

/**
 * `parseYaml`, and the YAML library is loaded only for what the quick parser leaves to it: most files of people are
 * plain, and loading the library takes longer than reading them.
 */
export async function readYaml(source: string, options: ParseOptions): Promise<ParsedDocument> {
  return (
    parseQuickly(source, options) ?? (await import('./syntax/yaml.ts')).parseWithLibrary(source, options)
  );
}
