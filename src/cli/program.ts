import { type Event, isSkycapError, kernelError } from '../kernel/index.ts';
import { entries } from './commands/index.ts';
import { createContext } from './context.ts';
import { usage } from './errors.ts';
import { commandHelp, groupHelp, overview } from './help.ts';
import { parseInvocation } from './parse/flags.ts';
import { globalFlags } from './parse/globals.ts';
import { type Resolved, resolveCommand, unknownCommand } from './parse/resolve.ts';
import { refuseFlag, refuseVerb } from './porter-flags.ts';
import { errorJson, renderError, reportOf } from './render/error.ts';
import { styleOf } from './render/style.ts';
import type { Command, CommandEntry, Host, Invocation } from './types.ts';

/** What main hands in besides the host: who cancels, and the live view's clock. */
export interface Controls {
  readonly signal: AbortSignal;
  readonly kill: AbortSignal;
  /** Called on each Ctrl-C with the count so far; returns a function that stops it. */
  onInterrupt(listener: (count: number) => void): () => void;
  every(milliseconds: number, tick: () => void): () => void;
}

/** One command line from its words to its exit code; everything thrown on the way is told on stderr. */
export async function runProgram(host: Host, controls: Controls): Promise<number> {
  const wish = errorFormat(host);
  try {
    return await dispatch(host, controls);
  } catch (error) {
    const report = reportOf(error, wish.debug);
    const text = wish.json
      ? `${JSON.stringify(errorJson(report))}\n`
      : renderError(report, styleOf(host.stderr, host.env));
    host.stderr.write(text);
    return report.exitCode;
  } finally {
    await host.stdout.flush();
    await host.stderr.flush();
  }
}

async function dispatch(host: Host, controls: Controls): Promise<number> {
  const style = styleOf(host.stdout, host.env);
  const argv = spelledOut(host.argv);
  const resolved = resolveCommand(argv, entries);
  if (resolved.entry === undefined) {
    refusePorter(resolved);
    const wantsHelp = resolved.rest.some((word) => word === '--help' || word === '-h');
    if (
      resolved.path === '' &&
      (argv.length === 0 || (wantsHelp && resolved.rest.every((word) => word.startsWith('-'))))
    ) {
      host.stdout.write(overview(entries, style));
      return 0;
    }
    if (resolved.path !== '' && wantsHelp) {
      host.stdout.write(groupHelp(resolved.path, entries, style));
      return 0;
    }
    throw unknownCommand(resolved, entries);
  }
  const command = await resolved.entry.load();
  const invocation = parseInvocation({
    command,
    words: resolved.rest,
    env: host.env,
    onUnknown: (flag) => refuseFlag(command.path, flag),
  });
  if (invocation.flags.switch('help')) {
    host.stdout.write(commandHelp(command, resolved.entry.aliases, style));
    return 0;
  }
  return await runCommand(invocation, host, controls);
}

/** `help VERB` is `VERB --help`, and `--version` is `version`. */
function spelledOut(argv: readonly string[]): readonly string[] {
  const [first, ...rest] = argv;
  if (first === 'help') {
    return [...rest, '--help'];
  }
  return first === '--version' || first === '-v' ? ['version', ...rest] : argv;
}

/** Porter's verbs that we refuse; its group `installation` also holds verbs that stand alone here. */
function refusePorter(resolved: Resolved): void {
  const typed = resolved.rest.filter((word) => !word.startsWith('-'));
  const canonical = resolveCommand(typed, porterEntries).path;
  const words = [
    ...(resolved.path === '' ? [] : resolved.path.split(' ')),
    ...(canonical === '' ? typed : canonical.split(' ')),
  ];
  refuseVerb(words[0] === 'bundle' ? words.slice(1) : words);
  for (const word of resolved.rest.filter((item) => item.startsWith('-'))) {
    const name = word.split('=')[0] as string;
    if (
      resolved.path === 'run' ||
      !globalFlags.some((flag) => `--${flag.name}` === name || `-${flag.short}` === name)
    ) {
      refuseFlag(resolved.path, name);
    }
  }
  const unknown = resolved.rest.find(
    (word) =>
      word.startsWith('-') &&
      !globalFlags.some((f) => word.split('=')[0] === `--${f.name}` || word === `-${f.short}`),
  );
  if (unknown !== undefined && typed.length === 0) {
    throw usage(`there is no flag ${unknown} without a command`, 'run skycap help to see all commands');
  }
}

async function runCommand(invocation: Invocation, host: Host, controls: Controls): Promise<number> {
  const running = createContext(invocation, host, controls);
  const stop = controls.onInterrupt((count) =>
    running.emit(cancelNotice(count, running.busy(), invocation.command)),
  );
  try {
    const exitCode = await invocation.command.run(invocation, running.context);
    const ignored = invocation.flags.unread();
    if (exitCode === 0 && ignored.length > 0) {
      throw kernelError(
        'INTERNAL',
        `skycap ${invocation.command.path} did nothing with --${ignored.join(', --')}`,
        {
          hint: 'report this: a flag is either used or refused',
        },
      );
    }
    return exitCode;
  } catch (error) {
    if (controls.signal.aborted && !isSkycapError(error)) {
      throw kernelError('CANCELLED', 'cancelled', { hint: 'run the command again to go on', cause: error });
    }
    throw error;
  } finally {
    stop();
    running.close();
  }
}

function cancelNotice(
  count: number,
  busy: readonly string[],
  { onInterrupt }: Command,
): Event & { readonly message: string } {
  if (onInterrupt !== undefined) {
    return {
      type: 'cancel.requested',
      message: count === 1 ? onInterrupt : 'press Ctrl-C again to leave at once',
    };
  }
  const what =
    busy.length === 0
      ? 'what is going on'
      : busy.length === 1
        ? `step ${busy[0]}`
        : `steps ${busy.join(', ')}`;
  const message =
    count === 1
      ? `cancelling: waiting for ${what} to end; press Ctrl-C again to kill ${busy.length > 1 ? 'them' : 'it'}`
      : `killing ${what}; press Ctrl-C again to leave at once`;
  return { type: 'cancel.requested', message };
}

/** How errors are told must be known before flags are parsed, since parsing may be what fails. */
function errorFormat(host: Host): { readonly json: boolean; readonly debug: boolean } {
  const value = (names: readonly string[], variable: string): string | undefined => {
    for (const [index, word] of host.argv.entries()) {
      const name = names.find((n) => word === n || word.startsWith(`${n}=`));
      if (name !== undefined) {
        return word === name ? host.argv[index + 1] : word.slice(name.length + 1);
      }
    }
    return host.env[variable];
  };
  const isJson =
    value(['--output', '-o'], 'SKYCAP_OUTPUT') === 'json' ||
    value(['--progress'], 'SKYCAP_PROGRESS') === 'json';
  const debugVariable = host.env.SKYCAP_DEBUG;
  const debug = host.argv.some((word) => word === '--debug' || word === '--debug=true');
  return {
    json: isJson,
    debug: debug || (debugVariable !== undefined && ['1', 'true', 't'].includes(debugVariable)),
  };
}

/** Porter's groups that are not ours, as routes, so that their synonyms are understood. */
const porterEntries: readonly CommandEntry[] = [
  'credentials list',
  'parameters list',
  'mixins list',
  'mixins feed generate',
  'plugins list',
  'storage migrate',
].map((path) => ({
  path,
  aliases: [],
  summary: '',
  load: (): Promise<Command> => Promise.reject(new Error(path)),
}));
