import type { Problem } from '../../document/index.ts';
import type { Bundle } from '../model.ts';
import { parseTolerant } from '../parse.ts';
import { documentOf } from '../source-document.ts';
import { type LintOptions, lintContext } from './context.ts';
import { checkEnvironment, checkLateOutputs } from './environment.ts';
import { checkExpressions } from './expressions.ts';
import { checkFiles } from './files.ts';
import { checkNames } from './names.ts';
import { checkOrder } from './order.ts';
import { checkPlaces } from './places.ts';
import { checkPorterRules } from './porter.ts';
import { checkValues } from './values.ts';
import { checkVisibility } from './visibility.ts';

export type { LintOptions } from './context.ts';

/**
 * What a bundle that parses means, and whether that can be what was meant: names, order, expressions, who sees what,
 * schemas, patterns, files. Asks no engine and no registry. Problems come in the order of the file.
 */
export async function lintBundle(bundle: Bundle, options: LintOptions = {}): Promise<readonly Problem[]> {
  const context = lintContext(bundle, documentOf(bundle), options);
  checkNames(context);
  checkOrder(context);
  const used = checkExpressions(context);
  checkVisibility(context, used);
  await checkPlaces(context);
  await checkValues(context);
  checkEnvironment(context);
  checkLateOutputs(context);
  checkFiles(context);
  checkPorterRules(context);
  return sorted(context.problems);
}

/** Parses and lints in one go: what `skycap lint` shows, also for a file that has errors. */
export async function lintSource(
  source: string,
  options: LintOptions & { readonly file: string },
): Promise<readonly Problem[]> {
  const { bundle, problems } = parseTolerant(source, options);
  if (bundle === undefined) return problems;
  return sorted([...problems, ...(await lintBundle(bundle, options))]);
}

function sorted(problems: readonly Problem[]): readonly Problem[] {
  return [...problems].sort(
    (a, b) => (a.place.line ?? 0) - (b.place.line ?? 0) || (a.place.column ?? 0) - (b.place.column ?? 0),
  );
}
