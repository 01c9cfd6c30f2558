import { type Problem, readYaml } from '../../document/index.ts';
import type { Bundle } from '../model.ts';
import { type ParseResult, parseTolerant } from '../parse.ts';
import { documentOf } from '../source-document.ts';
import { type LintOptions, lintContext } from './context.ts';
import { checkEnvironment, checkLateOutputs } from './environment.ts';
import { checkExpressions } from './expressions.ts';
import { checkFiles } from './files.ts';
import { checkInterfaces } from './interface.ts';
import { checkNames } from './names.ts';
import { checkOrder } from './order.ts';
import { checkPlaces } from './places.ts';
import { checkPorterRules } from './porter.ts';
import { checkTags } from './tags.ts';
import { checkValues } from './values.ts';
import { checkVisibility } from './visibility.ts';

export type { LintOptions } from './context.ts';
export type { FactsOf, ImageFacts, InterfaceFacts } from './interface.ts';
export type { TagState } from './tags.ts';

/**
 * What a bundle that parses means, and whether that can be what was meant: names, order, expressions, who sees what,
 * schemas, patterns, files. Asks no engine and no registry. Problems come in the order of the file.
 */
export async function lintBundle(bundle: Bundle, options: LintOptions = {}): Promise<readonly Problem[]> {
  const context = lintContext(bundle, await documentOf(bundle), options);
  checkNames(context);
  checkOrder(context);
  const used = checkExpressions(context);
  checkVisibility(context, used);
  await checkInterfaces(context, used);
  await checkPlaces(context);
  await checkValues(context);
  checkEnvironment(context);
  checkLateOutputs(context);
  checkFiles(context);
  checkTags(context);
  checkPorterRules(context);
  return sorted(context.problems);
}

/** Parses and lints in one go: what `skycap lint` shows, also for a file that has errors. */
export async function lintSource(
  source: string,
  options: LintOptions & { readonly file: string },
): Promise<readonly Problem[]> {
  return (await readBundle(source, options)).problems;
}

/** Parses and lints in one go. The bundle is absent when any problem is an error, of structure or of meaning. */
export async function readBundle(
  source: string,
  options: LintOptions & { readonly file: string },
): Promise<ParseResult> {
  const { bundle, problems: structural } = parseTolerant(await readYaml(source, options));
  if (bundle === undefined) return { problems: structural };
  const problems = sorted([...structural, ...(await lintBundle(bundle, options))]);
  return problems.some((problem) => problem.severity === 'error') ? { problems } : { bundle, problems };
}

function sorted(problems: readonly Problem[]): readonly Problem[] {
  return [...problems].sort(
    (a, b) => (a.place.line ?? 0) - (b.place.line ?? 0) || (a.place.column ?? 0) - (b.place.column ?? 0),
  );
}
