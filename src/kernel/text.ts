/**
 * Text that came from images, registries or bundles, made harmless for whoever shows it (docs/security.md, "Text").
 */

/** The CI system whose log the text goes to. */
export type CiSystem = 'github' | 'azure' | 'gitlab' | 'teamcity' | 'other';

// C0 but tab and newline, DEL, C1; bidirectional controls (Unicode UAX #9) and the marks; line and paragraph
// separators, which some terminals and viewers take for line ends; lone surrogates.
const CONTROLS =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/**
 * Controls as visible text: `\x1b` below U+0100, `\u202e` above. Newline and tab stay; so does a carriage return
 * that belongs to a line end (`\r\n`), as it moves nothing.
 *
 * @example escapeTerminal('\u001b[31mred') // '\\x1b[31mred'
 */
export function escapeTerminal(text: string): string {
  return text.replace(CONTROLS, (control, at: number) => {
    if (control === '\r' && text[at + 1] === '\n') return control;
    const code = control.charCodeAt(0);
    return code < 0x100
      ? `\\x${code.toString(16).padStart(2, '0')}`
      : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

/** One line for a table cell or a message: controls, newlines and tabs escaped. */
export function escapeLine(text: string): string {
  return escapeTerminal(text).replace(
    /[\r\n\t]/g,
    (control) => ({ '\r': '\\r', '\n': '\\n', '\t': '\\t' })[control] ?? control,
  );
}

// Words, and what stands in quotes, of more than 400 characters; messages of more than 4000.
const LONG_WORD = /(\S{200})\S{101,}(\S{100})/gu;
const LONG_QUOTE = /(?<=(["`]))((?:(?!\1)[^\n]){200})(?:(?!\1)[^\n]){101,}((?:(?!\1)[^\n]){100})(?=\1)/gu;
const MOST = 4000;

/**
 * A message whose names stay readable: bundles, registries and users may have names of kilobytes, of which the
 * beginning and the end say enough. What is whole goes into an error's `details`.
 */
export function clipNames(message: string): string {
  if (message.length <= 400) return message;
  const clipped = message.replace(LONG_WORD, '$1…$2').replace(LONG_QUOTE, '$2…$3');
  if (clipped.length <= MOST) return clipped;
  const [head, tail] = [clipped.slice(0, MOST - 500), clipped.slice(-400)];
  return `${head.replace(LONE_HIGH, '')}…${tail.replace(LONE_LOW, '')}`;
}

const LONE_HIGH = /[\ud800-\udbff]$/;
const LONE_LOW = /^[\udc00-\udfff]/;

const ZERO_WIDTH_SPACE = '\u200b';

// Where a command may stand, and how it begins. The runners trim white space before they look (GitHub's and
// Azure's `TrimStart`), and Azure finds `##vso[` anywhere in a line; GitHub reads its old `##[` form too.
const COMMANDS: Readonly<Record<Exclude<CiSystem, 'other'>, readonly RegExp[]>> = {
  github: [/^([^\S\n]*)(::)(?=\S)/gm, /(##)(?=\[)/g],
  azure: [/(##)(?=vso\[)/gi, /(##)(?=\[)/g],
  // Collapsible sections; they also need a carriage return and an escape, which do not survive escapeTerminal.
  gitlab: [/(section_)(?=(start|end):\d)/g],
  teamcity: [/(##)(?=teamcity\[)/gi],
};

/** Which CI this process runs under, by the variables that its makers document; undefined outside of one. */
export function ciSystem(environment: Readonly<Record<string, string | undefined>>): CiSystem | undefined {
  if (environment.GITHUB_ACTIONS === 'true') return 'github';
  if (environment.TF_BUILD !== undefined) return 'azure';
  if (environment.GITLAB_CI !== undefined) return 'gitlab';
  if (environment.TEAMCITY_VERSION !== undefined) return 'teamcity';
  return environment.CI === undefined || environment.CI === 'false' ? undefined : 'other';
}

/**
 * Breaks what a CI system would obey (`::set-output`, `##vso[…]`, `##teamcity[…]`, …) with a zero-width space, so
 * that it still reads the same. Under any CI the commands of all systems are broken: runners of one are used by
 * others. Give it whole lines.
 *
 * @param ci undefined outside of CI: the text stays as it is
 */
export function neutraliseWorkflowCommands(text: string, ci: CiSystem | undefined): string {
  if (ci === undefined) return text;
  let safe = text;
  for (const pattern of Object.values(COMMANDS).flat()) {
    safe = safe.replace(pattern, (...found: unknown[]) => {
      const [all] = found as [string];
      return `${all.slice(0, -1)}${ZERO_WIDTH_SPACE}${all.slice(-1)}`;
    });
  }
  return safe;
}
