import type { Text } from '../model.ts';
import { invokeMember, type LintContext, nodeAt, type PlacedStep, spanAt, stepPath } from './context.ts';

/** A script of the bundle called in a script: at the beginning of a command, or behind a shell's name. */
const CALLED =
  /(?:^|[;&|({]|\b(?:sh|bash|dash|ash|source|exec|then|do|else|\.))[ \t]*(\.\/[A-Za-z0-9_][A-Za-z0-9_./-]*)/gm;

/**
 * Files that steps run and the bundle does not have. Warnings: an earlier step or an image may bring them
 * (docs/bundle.md, "What a step finds").
 */
export function checkFiles(context: LintContext): void {
  const { exists } = context.options;
  if (exists === undefined) return;
  const checkPath = (
    path: string,
    options: { readonly placed: PlacedStep; readonly text: Text; readonly folder: string },
  ): void => {
    const full = normalize(options.folder, path);
    if (full === undefined || exists(full)) return;
    context.report(options.text.span, {
      severity: 'warning',
      code: 'missing-file',
      message: `the step ${options.placed.label} runs \`${path}\`, and the bundle has no file ${full}`,
      hint: 'add the file beside porter.yaml, or correct the path; ignore this if an image or an earlier step makes it',
    });
  };
  for (const placed of context.steps) {
    const folder = folderOf(placed);
    if (folder === undefined) continue;
    for (const [text, path] of calledPaths(context, placed)) checkPath(path, { placed, text, folder });
  }
  checkContexts(context, exists);
}

function folderOf(placed: PlacedStep): string | undefined {
  if (placed.step.body.kind !== 'invoke' || placed.step.body.dir === undefined) return '';
  const dir = placed.step.body.dir.text;
  return dir.includes('${') || dir.includes('{{') ? undefined : dir.replace(/^\/cnab\/app\/?/, '');
}

function* calledPaths(context: LintContext, placed: PlacedStep): Generator<readonly [Text, string]> {
  const { body } = placed.step;
  if (body.kind === 'mixin') {
    const command = nodeAt(context, [...stepPath(placed), body.mixin, 'command']);
    if (body.mixin === 'exec' && command?.kind === 'scalar' && /^\.\/[\w./-]+$/.test(command.text))
      yield [command, command.text];
    return;
  }
  const { command } = body;
  const first = command.kind === 'command' ? command.argv[0] : undefined;
  if (first !== undefined && /^\.\/[\w./-]+$/.test(first.text)) yield [first, first.text];
  if (command.kind !== 'run') return;
  // What a script makes itself cannot be told from what it lacks; a name it also writes to is left alone.
  const script = command.script.text.slice(0, 100_000);
  const seen = new Set<string>();
  for (const [, path = ''] of script.matchAll(CALLED)) {
    if (seen.has(path) || invokeMember(context, placed, 'action') === undefined) continue;
    seen.add(path);
    const bare = path.slice(2);
    if (
      new RegExp(
        `(?:>|-o|--output|chmod[^\\n]*|cp[^\\n]*|mv[^\\n]*)[ \\t]*(?:\\./)?${bare.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}`,
      ).test(script)
    )
      continue;
    yield [command.script, path];
  }
}

function normalize(folder: string, path: string): string | undefined {
  const parts: string[] = [];
  for (const part of `${folder}/${path}`.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') {
      if (parts.pop() === undefined) return undefined;
    } else parts.push(part);
  }
  return parts.join('/');
}

function checkContexts(context: LintContext, exists: (path: string) => boolean): void {
  for (const [i, image] of context.bundle.invocationImages.entries()) {
    const { source } = image;
    const [path, key] =
      source.kind === 'build'
        ? [source.context, 'build']
        : source.kind === 'bake'
          ? [source.file, 'bake']
          : [undefined, ''];
    const full = path === undefined ? undefined : normalize('', path);
    if (full === undefined || full === '' || exists(full)) continue;
    context.report(spanAt(context, ['invocationImages', i, key]), {
      severity: 'warning',
      code: 'missing-file',
      message: `the image \`${image.name}\` is made from \`${path}\`, which the bundle does not have`,
      hint: 'add it beside porter.yaml, or correct the path',
    });
  }
}
