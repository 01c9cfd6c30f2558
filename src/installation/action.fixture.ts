import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createFakeEngine, type FakeImage, type FakeWorld } from '../engine/fake/index.ts';
import type { Engine } from '../engine/index.ts';
import type { ImageAccess } from '../images/index.ts';
import type { PinnedImage } from '../oci/index.ts';
import { digestOf, parsePlatform } from '../oci/names/index.ts';
import { defaultRunOptions } from '../run/index.ts';
import { openState, type StateStore } from '../state/index.ts';
import { lockBundle } from './ensure-lock.ts';
import { runAction } from './run-action.ts';
import type { ActionDeps, ActionRequest, ActionResult, InstallationEvent } from './types.ts';

const platform = parsePlatform('linux/amd64');

function pinned(reference: string): PinnedImage {
  const digest = digestOf(reference.replace(/@.*/, ''));
  return {
    reference,
    repository: reference.replace(/[:@].*/, ''),
    digest,
    manifestDigest: digest,
    configDigest: digest,
    platform,
    config: {
      entrypoint: ['tool'],
      cmd: ['--help'],
      env: ['PATH=/bin', 'LANG=C'],
      user: '',
      workingDir: '',
      labels: {},
    },
    layers: [],
    size: 10,
  };
}

/** An image is what its reference says. */
export const imagesByName: ImageAccess = {
  describe: async (reference) => ({ digest: pinned(reference).digest, platforms: [pinned(reference)] }),
  digestOf: async (reference) => pinned(reference).digest,
  fetch: async (reference) => ({
    ...pinned(reference),
    digest: reference.split('@')[1] as never,
    manifestDigest: reference.split('@')[1] as never,
  }),
};

export interface Outcome {
  readonly result: ActionResult;
  readonly events: readonly InstallationEvent[];
}

export type ActionOptions = Partial<ActionRequest> &
  Partial<Pick<ActionDeps, 'signal' | 'kill' | 'state'>> & {
    readonly image?: FakeImage;
    readonly world?: FakeWorld;
    /** Stands around the fake engine. */
    readonly around?: (engine: Engine) => Engine;
  };

/** Everything that an action needs, with the fake engine: state and bundles in a folder that goes at the end. */
export interface ActionWorld extends AsyncDisposable {
  readonly state: StateStore;
  /** A bundle of one image `tools`; `text` follows its head. */
  bundle(text: string, files?: Readonly<Record<string, string>>): string;
  run(directory: string, action: string, more?: ActionOptions): Promise<Outcome>;
}

export async function makeActionWorld(): Promise<ActionWorld> {
  const folder = mkdtempSync(join(tmpdir(), 'skycap-'));
  const state = await openState({ directory: join(folder, 'state') });
  return {
    state,
    bundle(text, files = {}) {
      const directory = mkdtempSync(join(folder, 'bundle-'));
      writeFileSync(
        join(directory, 'porter.yaml'),
        `name: shop\nversion: 1.0.0\ninvocationImages:\n  - {name: tools, image: "ghcr.io/acme/tools:1"}\n${text}`,
      );
      for (const [name, content] of Object.entries(files)) writeFileSync(join(directory, name), content);
      return directory;
    },
    run: (directory, action, more = {}) => runIn({ folder, state }, directory, { ...more, action }),
    async [Symbol.asyncDispose]() {
      await state[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true });
    },
  };
}

async function runIn(
  home: { readonly folder: string; readonly state: StateStore },
  directory: string,
  {
    image,
    world,
    around = (engine) => engine,
    signal,
    kill,
    state,
    action,
    ...request
  }: ActionOptions & {
    readonly action: string;
  },
): Promise<Outcome> {
  const events: InstallationEvent[] = [];
  const deps: ActionDeps = {
    state: state ?? home.state,
    engine: around(
      createFakeEngine({
        ...(image === undefined ? {} : { images: { tools: image } }),
        ...(world === undefined ? {} : { world }),
      }),
    ),
    images: imagesByName,
    platform,
    configuredCredentials: {},
    environment: { TOKEN: 'hunter2-secret' },
    isGranted: () => false,
    emit: (event) => void events.push(event),
    signal: signal ?? new AbortController().signal,
    kill: kill ?? new AbortController().signal,
    now: () => new Date(),
    directory: join(home.folder, 'runs'),
  };
  const source = {
    file: join(directory, 'porter.yaml'),
    directory,
    lockFile: join(directory, 'porter.lock'),
  };
  await lockBundle(source, deps, { update: [], check: false });
  const result = await runAction(
    {
      action,
      source,
      key: { namespace: '', name: 'mine' },
      labels: {},
      parameters: {},
      credentials: {},
      force: false,
      dryRun: false,
      resume: false,
      replan: false,
      rerun: [],
      options: { ...defaultRunOptions, graceMs: 200 },
      ...request,
    },
    deps,
  );
  return { result, events };
}

export function ran(outcome: Outcome) {
  if (outcome.result.kind !== 'ran') throw new Error('it was only planned');
  return outcome.result;
}
