import { INTERPRETERS, type Interpreter, programName, WRAPPERS } from './program-tables.ts';
import type { Command, Language, Stage, Word } from './types.ts';

/** Does this command read its program from standard input? In which language? */
function readsProgram(command: Command): Language | undefined {
  const { words } = command;
  let from = 0;
  for (
    let name = programName(words[from]);
    name !== undefined && WRAPPERS[name] !== undefined;
    name = programName(words[from])
  ) {
    let left = WRAPPERS[name]?.operands ?? 0;
    from++;
    while (from < words.length) {
      const { value } = words[from] as Word;
      if (WRAPPERS[name]?.takes.test(value)) from += 2;
      else if (value.startsWith('-') || /^\w+=/.test(value) || left-- > 0) from++;
      else break;
    }
  }
  const name = programName(words[from]);
  if (name === undefined) return undefined;
  const rest = words.slice(from + 1).map((word) => word.value);
  if (name === 'su' || name === 'runuser')
    return rest.some((word) => /^(?:-\w*c|--command)/.test(word)) ? undefined : 'shell';
  if (name === 'ssh') return sshHasCommand(rest) ? undefined : 'shell';
  if (name === 'xargs')
    return /^(?:sh|bash|dash|ash)$/.test(rest.find((w) => !w.startsWith('-')) ?? '') ? 'shell' : undefined;
  if (name === 'source' || name === '.') return rest[0] === '/dev/stdin' ? 'shell' : undefined;
  if (name === 'm4' || name === 'dc' || name === 'parallel') return 'other';
  const interpreter = INTERPRETERS[name];
  if (interpreter === undefined) return hiddenReader(words, from);
  return fromStandardInput(rest, interpreter) ? interpreter.language : undefined;
}

/** `docker exec -i app sh`, `kubectl exec -i pod -- sh`: an interpreter as the last word. */
function hiddenReader(words: readonly Word[], from: number): Language | undefined {
  if (!/^(?:docker|podman|kubectl|oc|nerdctl|lxc|nsenter|crictl)$/.test(programName(words[from]) ?? ''))
    return undefined;
  const last = words.findIndex((word, i) => i > from && INTERPRETERS[programName(word) ?? ''] !== undefined);
  const interpreter = last < 0 ? undefined : INTERPRETERS[programName(words[last]) ?? ''];
  if (interpreter === undefined) return undefined;
  return fromStandardInput(
    words.slice(last + 1).map((word) => word.value),
    interpreter,
  )
    ? interpreter.language
    : undefined;
}

function fromStandardInput(rest: readonly string[], it: Interpreter): boolean {
  if (it.operand === 'code')
    return rest.some(
      (word, i) =>
        /^-f(?:-|\/dev\/stdin)$/.test(word) ||
        (word === '-f' && /^(?:-|\/dev\/stdin)$/.test(rest[i + 1] ?? '')),
    );
  if (rest.some((word) => it.code.test(word))) return false;
  for (let i = 0; i < rest.length; i++) {
    const word = rest[i] as string;
    if (word === '-' || word === '/dev/stdin') return true;
    if (it.language === 'shell' && /^-[a-z]*s/.test(word)) return true;
    if (it.language === 'python' && word === '-m') return false;
    if (it.takes?.test(word)) i++;
    else if (!/^[-+]/.test(word)) return false;
  }
  return true;
}

function sshHasCommand(rest: readonly string[]): boolean {
  let operandCount = 0;
  for (let i = 0; i < rest.length; i++) {
    if (/^-[a-zA-Z]*[BbcDEeFIiJLlmOoPpQRSWw]$/.test(rest[i] as string)) i++;
    else if (!(rest[i] as string).startsWith('-')) operandCount++;
  }
  return operandCount > 1;
}

export interface Piped {
  readonly holes: readonly [number, number];
  readonly program: string;
  readonly language: Language;
  /** The evaluated text, as far as it can be seen. */
  readonly text: string;
}

/** What stands in a heredoc of, or is piped into, a program that evaluates its standard input. */
export function pipedPrograms(stages: readonly Stage[]): readonly Piped[] {
  const piped: Piped[] = [];
  for (const [i, { command }] of stages.entries()) {
    const language = command === undefined ? undefined : readsProgram(command);
    if (command === undefined || language === undefined) continue;
    const program = command.words.find((word) => programName(word) !== undefined)?.value ?? 'a program';
    for (const { body } of command.heredocs)
      if (body !== undefined) piped.push({ holes: body.holes, program, language, text: body.value });
    for (const before of stages.slice(0, i)) {
      if (before.holes !== undefined) piped.push({ holes: before.holes, program, language, text: '' });
      for (const word of before.command?.words ?? [])
        piped.push({ holes: word.holes, program, language, text: word.value });
      for (const { body } of before.command?.heredocs ?? [])
        if (body !== undefined) piped.push({ holes: body.holes, program, language, text: body.value });
    }
  }
  return piped;
}
