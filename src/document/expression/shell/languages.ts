import { Grammar } from './grammar.ts';
import { HOLE, type Language, type Quoting, Unclear } from './types.ts';

/** How a language reads a variable of its environment, and how it joins texts. */
const ACCESS: Readonly<
  Partial<Record<Language, { read(name: string): string; readonly joint: string; readonly quotes: string }>>
> = {
  awk: { read: (name) => `ENVIRON["${name}"]`, joint: ' ', quotes: '"' },
  perl: { read: (name) => `$ENV{${name}}`, joint: ' . ', quotes: `"'` },
  python: { read: (name) => `__import__("os").environ["${name}"]`, joint: ' + ', quotes: `"'` },
  node: { read: (name) => `process.env.${name}`, joint: ' + ', quotes: '"\'`' },
  ruby: { read: (name) => `ENV["${name}"]`, joint: ' + ', quotes: `"'` },
  php: { read: (name) => `getenv("${name}")`, joint: ' . ', quotes: `"'` },
};

/** The code that stands for a value in another language's code, or undefined where we do not know one. */
export function codeFor(language: Language, code: string, nth: number, name: string): string | undefined {
  const access = ACCESS[language];
  if (access === undefined) return undefined;
  const quote = quoteAround(code, nth, access.quotes, language === 'python');
  if (quote === '') return access.read(name);
  return `${quote}${access.joint}${access.read(name)}${access.joint}${quote}`;
}

/** The quote that is open at the hole, or the empty text. */
function quoteAround(code: string, nth: number, quotes: string, triples: boolean): string {
  let open = '';
  let left = nth;
  for (let i = 0; i < code.length; i++) {
    const c = code[i] as string;
    if (c === HOLE && left-- === 0) return open;
    if (c === '\\') i++;
    else if (open !== '' && code.startsWith(open, i)) {
      i += open.length - 1;
      open = '';
    } else if (open === '' && quotes.includes(c)) {
      open = triples && code.startsWith(c.repeat(3), i) ? c.repeat(3) : c;
      i += open.length - 1;
    }
  }
  return open;
}

/** The quoting of a hole in code that a shell will read; undefined when it cannot be read. */
export function shellQuoting(code: string, nth: number): Quoting | undefined {
  const grammar = new Grammar(code, 'sh');
  try {
    grammar.run();
  } catch (error) {
    if (error instanceof Unclear) return undefined;
    throw error;
  }
  return grammar.holes[nth]?.quoting;
}

/** An expression for the text of a value between single quotes, ready to be read by any shell. */
export function quotedExpression(expression: string): string {
  return `join(["'", replace(join([${expression}], ""), "'", "'\\\\''"), "'"], "")`;
}

/** An expression for the text of a value with a backslash before what is special in this part of a sed script. */
export function sedExpression(expression: string, code: string, nth: number): string {
  const before = upTo(code, nth);
  const command = /(?:^|[;{}\s\d$/])s([^\w\s\\])(?!.*[;}]\s*$)/.exec(before);
  const delimiter = command?.[1] ?? '/';
  const body = command === null ? '' : before.slice((command.index ?? 0) + command[0].length);
  const inReplacement = command !== null && body.replace(/\\./gs, '').includes(delimiter);
  const special = ['\\', delimiter, '\n', ...(inReplacement ? ['&'] : ['.', '[', '*', '^', '$'])];
  return special.reduce(
    (text, c) => `replace(${text}, ${JSON.stringify(c)}, ${JSON.stringify(`\\${c}`)})`,
    `join([${expression}], "")`,
  );
}

function upTo(code: string, nth: number): string {
  let at = -1;
  for (let i = 0; i <= nth; i++) at = code.indexOf(HOLE, at + 1);
  return at < 0 ? code : code.slice(0, at);
}
