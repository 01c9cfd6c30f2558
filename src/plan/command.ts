import type { ImageRunConfig } from '../oci/index.ts';

const dockerPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** The longest string that Linux takes as one argument or environment entry, its NUL included (MAX_ARG_STRLEN). */
export const longestString = 128 * 1024;

/** The image's environment as a record, PATH filled in as Docker does. */
export function imageEnvironment(config: ImageRunConfig): Record<string, string> {
  const env: Record<string, string> = { PATH: dockerPath };
  for (const entry of config.env) {
    const equals = entry.indexOf('=');
    if (equals > 0) env[entry.slice(0, equals)] = entry.slice(equals + 1);
  }
  return env;
}

/** How a script file is started: by its own `#!`, else by the shell that the step or the default names. */
export function scriptInterpreter(
  script: string,
  shell: string | undefined,
): { shell: string; argv: readonly string[] } {
  if (shell !== undefined) return { shell, argv: [shell, '-e'] };
  if (script.startsWith('#!')) {
    const words = (script.slice(2).split('\n', 1)[0] ?? '').trim().split(/\s+/);
    const program = words[0]?.endsWith('/env')
      ? words.find((word, at) => at > 0 && !word.startsWith('-'))
      : words[0];
    return { shell: (program ?? '').replace(/^.*\//, ''), argv: [] };
  }
  return { shell: 'sh', argv: ['sh', '-e'] };
}
