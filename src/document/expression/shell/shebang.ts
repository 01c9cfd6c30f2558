import type { Language, Shell } from './types.ts';

/** A shell whose quoting is known, or what else reads the script. */
export type ScriptInterpreter =
  | Shell
  | Exclude<Language, 'shell' | 'arithmetic' | 'name' | 'file' | 'argument'>;

/**
 * Who reads a script: its `#!` line, else what `shell:` says, else `sh`.
 * `#!/usr/bin/env bash`, `#!/bin/busybox sh` and options behind the name are understood.
 */
export function shellOf(
  script: string,
  declared?: string,
): { readonly interpreter: ScriptInterpreter; readonly shebang: string } {
  if (!script.startsWith('#!')) return { interpreter: interpreterOf(declared ?? 'sh'), shebang: '' };
  const lineBreak = script.indexOf('\n');
  const shebang = lineBreak < 0 ? script : script.slice(0, lineBreak + 1);
  const words = shebang
    .slice(2)
    .trim()
    .split(/[ \t]+/);
  let name = base(words[0] ?? '');
  const rest = words.slice(1);
  if (name === 'env') {
    if (rest[0] === '-S') rest.shift();
    name = base(rest.find((word) => !/^\w+=/.test(word)) ?? '');
  } else if (name === 'busybox') name = rest[0] === 'sh' || rest[0] === 'ash' ? 'ash' : 'other';
  return { interpreter: interpreterOf(name), shebang };
}

function base(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

function interpreterOf(name: string): ScriptInterpreter {
  const bare = base(name);
  if (bare === 'sh' || bare === 'dash' || bare === 'bash' || bare === 'ash') return bare;
  if (/^python[\d.]*$/.test(bare)) return 'python';
  if (bare === 'nodejs' || bare === 'node') return 'node';
  if (bare === 'perl' || bare === 'ruby' || bare === 'php' || bare === 'awk' || bare === 'sed') return bare;
  return 'other';
}
