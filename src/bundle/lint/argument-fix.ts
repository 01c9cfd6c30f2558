import { type loadShell, printTemplate } from '../../document/expression/index.ts';
import { applyEdits } from '../../document/index.ts';

type Shell = Awaited<ReturnType<typeof loadShell>>;

export interface MendInput {
  readonly argv: readonly string[];
  readonly element: number;
  readonly delimiters: 'dollar' | 'mustache';
  readonly env: Readonly<Record<string, string>>;
}

/**
 * The text of a `sh -c`, `python -c` and the like with its expressions moved to `env:`. Undefined where the program
 * that reads it may not have this environment (ssh, su, xargs …) or where not every expression can be moved.
 */
export function mendArgument(
  shell: Shell,
  input: MendInput,
): { readonly text: string; readonly env: Readonly<Record<string, string>> } | undefined {
  const { argv, element, delimiters } = input;
  const program = argv[0] ?? '';
  const text = argv[element] ?? '';
  // Only an interpreter that the element is handed to directly: `[bash, -ec, TEXT]`, `[python3, -c, TEXT]`.
  if (element === 0 || !/^-[A-Za-z]*[ce]$/.test(argv[element - 1] ?? '')) return undefined;
  const first = shell.bindScript(text, { delimiters, shell: program, env: input.env });
  if (first.interpreter === 'other') return undefined;
  const moved = first.fix === undefined ? text : applyEdits(text, first.fix.replaceInScript);
  const env: Record<string, string> = { ...(first.fix?.addEnv ?? {}) };
  const rest = shell.bindScript(moved, { delimiters, shell: program, env: { ...input.env, ...env } });
  if (rest.findings.length > 0) return undefined;
  // What may stand in a script may not stand in an argument: these go the same way.
  let body = rest.shebang + rest.body;
  for (const binding of rest.bindings) {
    const written = printTemplate(binding.template);
    const name = freeName(written, { ...input.env, ...env });
    env[name] = written;
    body = body.replaceAll(`\${${binding.variable}}`, `\${${name}}`);
  }
  return { text: body, env };
}

/** `${ bundle.parameters.db-name }` → `DB_NAME`, or the name that already has this value. */
function freeName(template: string, taken: Readonly<Record<string, string>>): string {
  const known = Object.entries(taken).find(([, text]) => text === template);
  if (known !== undefined) return known[0];
  const words = template.match(/[A-Za-z0-9_-]+/g) ?? [];
  const last = (words.at(-1) ?? 'VALUE').toUpperCase().replace(/[^A-Z0-9]/g, '_');
  const base = /^[A-Z_]/.test(last) ? last : `VALUE_${last}`;
  for (let i = 1; ; i++) {
    const name = i === 1 ? base : `${base}_${i}`;
    if (!Object.hasOwn(taken, name) && !RESERVED.has(name)) return name;
  }
}

/** Variables that programs look at; a value of the bundle must not get into them. */
const RESERVED = new Set([
  'PATH',
  'HOME',
  'IFS',
  'ENV',
  'BASH_ENV',
  'SHELL',
  'PWD',
  'USER',
  'LANG',
  'PS4',
  'LD_PRELOAD',
  'LD_LIBRARY_PATH',
]);
