import type { Command, CommandEntry } from '../types.ts';

// Paths, other names and summaries stand here so that help and completion need no command loaded; a test holds the
// summaries equal to the commands' own. The type of an entry keeps each import lazy.
export const entries: readonly CommandEntry[] = [
  entry('create', 'start a bundle or an invocation image', ['bundle create'], () => import('./create.ts')),
  entry('lint', 'check a bundle', ['bundle lint'], () => import('./lint.ts')),
  entry('lock', 'pin the images of a bundle in porter.lock', [], () => import('./lock.ts')),
  entry(
    'explain',
    'show what a bundle takes, gives and does',
    ['bundle explain', 'inspect', 'bundle inspect'],
    () => import('./explain.ts'),
  ),
  entry('schema', 'print the JSON Schema of porter.yaml', [], () => import('./schema.ts')),
  entry('install', 'install a bundle', ['installation install'], () => import('./install.ts')),
  entry('upgrade', 'upgrade an installation', ['installation upgrade'], () => import('./upgrade.ts')),
  entry(
    'invoke',
    'run a custom action of an installation',
    ['installation invoke'],
    () => import('./invoke.ts'),
  ),
  entry('uninstall', 'uninstall an installation', ['installation uninstall'], () => import('./uninstall.ts')),
  entry('step run', 'run one step of an installation alone', [], () => import('./step-run.ts')),
  entry('installation list', 'list installations', ['list'], () => import('./installation-list.ts')),
  entry(
    'installation show',
    'show an installation, and what failed last',
    ['show'],
    () => import('./installation-show.ts'),
  ),
  entry(
    'installation delete',
    'remove the records of an installation',
    [],
    () => import('./installation-delete.ts'),
  ),
  entry('run list', 'list runs, oldest first', ['installation run list'], () => import('./run-list.ts')),
  entry('run show', 'show a run and its steps', [], () => import('./run-show.ts')),
  entry(
    'run logs',
    'print the log of a run',
    ['logs', 'installation logs show'],
    () => import('./run-logs.ts'),
  ),
  entry('run cancel', 'cancel a run from another terminal', [], () => import('./run-cancel.ts')),
  entry('run prune', 'remove old runs with their logs', [], () => import('./run-prune.ts')),
  entry(
    'output list',
    'list the outputs of an installation',
    ['installation output list'],
    () => import('./output-list.ts'),
  ),
  entry(
    'output show',
    'print the value of an output',
    ['installation output show'],
    () => import('./output-show.ts'),
  ),
  entry('image pull', 'pull an image into the store', [], () => import('./image-pull.ts')),
  entry('image push', 'push an image of the store to a registry', [], () => import('./image-push.ts')),
  entry('image list', 'list the images of the store', [], () => import('./image-list.ts')),
  entry('image inspect', 'show the manifest and config of an image', [], () => import('./image-inspect.ts')),
  entry('image import', 'make an image of a folder or tar archive', [], () => import('./image-import.ts')),
  entry(
    'image rm',
    'take the name from an image of the store',
    ['image remove'],
    () => import('./image-rm.ts'),
  ),
  entry('image prune', 'remove what no image of the store needs', [], () => import('./image-prune.ts')),
  entry('image fsck', 'check the store, and mend it', [], () => import('./image-fsck.ts')),
  entry('login', 'keep a login to a registry', [], () => import('./login.ts')),
  entry('logout', 'forget a login to a registry', [], () => import('./logout.ts')),
  entry('registry serve', 'serve the store as a registry', [], () => import('./registry-serve.ts')),
  entry('config show', 'show the settings and where each came from', [], () => import('./config-show.ts')),
  entry('doctor', 'check what this machine has and lacks', [], () => import('./doctor.ts')),
  entry('completion', 'print a completion script for a shell', [], () => import('./completion.ts')),
  entry('version', 'print the version', [], () => import('./version.ts')),
];

function entry(
  path: string,
  summary: string,
  aliases: readonly string[],
  load: () => Promise<{ readonly command: Command }>,
): CommandEntry {
  return { path, aliases, summary, load: async () => (await load()).command };
}
