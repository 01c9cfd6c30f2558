import { parseYaml } from '../document/syntax/index.ts';
import { type ParseResult, parseTolerant } from './parse.ts';

/**
 * Reads a porter.yaml: structure only; `lintBundle` looks at what it means. All problems come in one go; never throws
 * for what stands in the file.
 */
export function parseBundle(source: string, options: { readonly file: string }): ParseResult {
  const { bundle, problems } = parseTolerant(parseYaml(source, options));
  const failed = problems.some((problem) => problem.severity === 'error');
  return failed || bundle === undefined ? { problems } : { bundle, problems };
}
