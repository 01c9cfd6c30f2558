import { notSupported } from './errors.ts';

/**
 * What Porter's command line has and Skycap does not, with the reason and what serves instead. Everything else of
 * Porter's is declared by the commands themselves, so a flag is either used or refused: never accepted and ignored.
 * test/data/porter-cli.json lists all of Porter's verbs and flags; the test beside this file walks it row by row.
 */
export interface Refusal {
  /** Follows "is not supported, because". */
  readonly because: string;
  /** An imperative sentence. */
  readonly use: string;
}

export interface RefusedFlag extends Refusal {
  readonly name: string;
  readonly short?: string;
}

const bundlesStayFiles: Refusal = {
  because: 'bundles are run from their folder and are not yet published to or pulled from a registry',
  use: 'copy the folder with its porter.yaml and porter.lock, and name the file with --file',
};
const nothingIsBuilt: Refusal = {
  because: 'a bundle has no image of its own to build: each step runs in an image that exists already',
  use: 'run skycap lint, then skycap install',
};
const noSets = (kind: 'credential' | 'parameter'): Refusal => ({
  because: `there are no stored ${kind} sets`,
  use:
    kind === 'credential'
      ? 'name the source with --credential NAME=env:VAR, or keep it under "credentials" in the configuration file'
      : 'keep the values in a file and name it with --params-file',
});
const noMixins: Refusal = {
  because: 'steps run in invocation images, and mixins are not installed on this machine',
  use: 'declare an image under invocationImages and give the step an invoke: block',
};
const noPlugins: Refusal = {
  because: 'stores and secret sources are built in and there are no plugins',
  use: 'name credential sources with --credential NAME=env:VAR, path:FILE or command:CMD',
};
const oneConfiguration: Refusal = {
  because: 'the configuration is one plain file without contexts',
  use: 'edit the file that skycap config show names',
};
const storageCaresForItself: Refusal = {
  because: 'the state database migrates itself and sets its own permissions',
  use: 'run skycap doctor to check it',
};

/** By Porter's verb, groups in the plural and without `bundles` or `installations` where those may be left out. */
export const refusedVerbs: Readonly<Record<string, Refusal>> = {
  archive: bundlesStayFiles,
  build: nothingIsBuilt,
  copy: bundlesStayFiles,
  publish: bundlesStayFiles,
  'installation apply': {
    because: 'installations are not kept as desired-state files',
    use: 'run skycap install or skycap upgrade with --params-file',
  },
  ...Object.fromEntries(
    ['apply', 'create', 'delete', 'edit', 'generate', 'list', 'show'].flatMap((verb) => [
      [`credentials ${verb}`, noSets('credential')],
      [`parameters ${verb}`, noSets('parameter')],
    ]),
  ),
  ...Object.fromEntries(
    ['create', 'feed generate', 'feed template', 'install', 'list', 'search', 'uninstall'].map((verb) => [
      `mixins ${verb}`,
      noMixins,
    ]),
  ),
  ...Object.fromEntries(
    ['install', 'list', 'run', 'search', 'show', 'uninstall'].map((verb) => [`plugins ${verb}`, noPlugins]),
  ),
  'config context list': oneConfiguration,
  'config context use': oneConfiguration,
  'config edit': oneConfiguration,
  'config migrate': oneConfiguration,
  'storage fix-permissions': storageCaresForItself,
  'storage migrate': storageCaresForItself,
  mcp: {
    because: 'there is no server for language-model agents',
    use: 'call the commands with --output json, which every one of them has',
  },
  'api-server run': { because: 'there is no gRPC server', use: 'call the commands with --output json' },
};

/** `porter run` is the program inside Porter's bundle images; ours is the group of recorded runs. */
const runtime: readonly RefusedFlag[] = ['file', 'action', 'debug'].map((name) => ({
  name,
  ...(name === 'file' ? { short: 'f' } : {}),
  because: 'no program of ours runs inside a step: the image is started as it is',
  use: 'run an action with skycap invoke --action ACTION',
}));

const source: readonly RefusedFlag[] = [
  { name: 'reference', short: 'r', ...bundlesStayFiles },
  {
    name: 'cnab-file',
    because: 'CNAB bundle files are not read yet',
    use: 'name the porter.yaml of the bundle with --file',
  },
  {
    name: 'autobuild-disabled',
    because: 'nothing is ever built before an action',
    use: 'leave the flag out',
  },
];
const insecure: RefusedFlag = {
  name: 'insecure-registry',
  because: 'one flag would drop TLS for every registry that the command talks to',
  use: 'name the registry under "registries" in the configuration file with insecure: true (loopback needs no mention)',
};
const freshPull: RefusedFlag = {
  name: 'force',
  because:
    'there is no cached bundle to pull afresh: the folder is read each time and images are pinned by digest',
  use: 'leave the flag out, or run skycap lock --update to move the images',
};
const versionStrategy: RefusedFlag = {
  name: 'dependencies-version-strategy',
  because: 'bundles with dependencies are not run yet',
  use: 'install each dependency by itself, at the version you want',
};
const action: readonly RefusedFlag[] = [
  ...source,
  insecure,
  { name: 'credential-set', short: 'c', ...noSets('credential') },
  { name: 'cred', ...noSets('credential') },
  { name: 'parameter-set', short: 'p', ...noSets('parameter') },
  {
    name: 'force-run',
    because: 'a run whose process died never blocks the next one: it is finished and recorded first',
    use: 'leave the flag out; stop a run that is alive with skycap run cancel',
  },
  {
    name: 'mount-host-volume',
    because: 'a bundle gets no folder of the host',
    use: 'pass files with a parameter of type file, or declare a volume on the invocation image',
  },
  {
    name: 'no-logs',
    because: 'the log is part of the record of a run',
    use: 'remove old runs and their logs with skycap run prune',
  },
];

/** By our command. */
export const refusedFlags: Readonly<Record<string, readonly RefusedFlag[]>> = {
  lint: [{ ...insecure, because: 'lint asks no registry', use: 'leave the flag out' }],
  explain: [
    ...source,
    freshPull,
    { ...insecure, because: 'explain asks no registry', use: 'leave the flag out' },
    versionStrategy,
    {
      name: 'show-dependencies',
      because: 'the dependencies of a bundle are not looked into yet',
      use: 'read "dependencies" in skycap explain --output json',
    },
    {
      name: 'max-dependency-depth',
      because: 'the dependencies of a bundle are not looked into yet',
      use: 'read "dependencies" in skycap explain --output json',
    },
  ],
  install: [
    ...action,
    versionStrategy,
    {
      name: 'verify-bundle',
      because: 'signatures of bundles are not checked yet',
      use: 'rely on porter.lock: images are pinned and verified by digest',
    },
  ],
  upgrade: [...action, freshPull, versionStrategy, { name: 'version', ...bundlesStayFiles }],
  invoke: action,
  uninstall: [...action, freshPull],
};

/** Porter's flags of every verb. */
export const refusedGlobals: readonly RefusedFlag[] = [
  { name: 'context', ...oneConfiguration },
  { name: 'experimental', because: 'no feature hides behind a flag', use: 'leave the flag out' },
];

/** Throws if Porter's verb begins with these words and is one that we refuse. */
export function refuseVerb(words: readonly string[]): void {
  for (let length = words.length; length > 0; length--) {
    const verb = words.slice(0, length).join(' ');
    const refusal = refusedVerbs[verb];
    if (refusal !== undefined) {
      throw notSupported(`porter ${verb}`, refusal.because, refusal.use);
    }
  }
  const group = words[0];
  const inGroup = Object.keys(refusedVerbs).filter((verb) => verb.startsWith(`${group} `));
  const first = refusedVerbs[inGroup[0] ?? ''];
  if (
    group !== undefined &&
    first !== undefined &&
    ['credentials', 'parameters', 'mixins', 'plugins', 'storage'].includes(group)
  ) {
    throw notSupported(`porter ${group}`, first.because, first.use);
  }
}

/** Throws if this flag (`--name` or `-n`) is one of Porter's that we refuse for this command. */
export function refuseFlag(path: string, spelled: string): void {
  const refused = path === 'run' ? runtime : [...(refusedFlags[path] ?? []), ...refusedGlobals];
  const flag = refused.find(
    (f) => spelled === `--${f.name}` || (f.short !== undefined && spelled === `-${f.short}`),
  );
  if (flag !== undefined) {
    const where = path === '' ? '' : ` of ${path}`;
    throw notSupported(`the flag --${flag.name}${where}`, flag.because, flag.use);
  }
}
