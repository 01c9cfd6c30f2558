import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createFakeEngine, type FakeImage, FakeWorld } from '../engine/fake/index.ts';
import type { ImageAccess } from '../images/index.ts';
import type { PinnedImage } from '../oci/index.ts';
import { digestOf, parsePlatform } from '../oci/names/index.ts';
import { defaultRunOptions } from '../run/index.ts';
import { openState, type StateStore } from '../state/index.ts';
import { lockBundle } from './ensure-lock.ts';
import { runAction } from './run-action.ts';
import type { ActionDeps, ActionRequest, ActionResult, InstallationEvent } from './types.ts';

const platform = parsePlatform('linux/amd64');
let folder: string;
let state: StateStore;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'skycap-'));
  state = await openState({ directory: join(folder, 'state') });
});

afterEach(async () => {
  await state[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

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

const images: ImageAccess = {
  describe: async (reference) => ({ digest: pinned(reference).digest, platforms: [pinned(reference)] }),
  digestOf: async (reference) => pinned(reference).digest,
  fetch: async (reference) => ({
    ...pinned(reference),
    digest: reference.split('@')[1] as never,
    manifestDigest: reference.split('@')[1] as never,
  }),
};

interface Outcome {
  readonly result: ActionResult;
  readonly events: readonly InstallationEvent[];
}

function bundle(text: string, files: Record<string, string> = {}): string {
  const directory = mkdtempSync(join(folder, 'bundle-'));
  writeFileSync(
    join(directory, 'porter.yaml'),
    `name: shop\nversion: 1.0.0\ninvocationImages:\n  - {name: tools, image: "ghcr.io/acme/tools:1"}\n${text}`,
  );
  for (const [name, content] of Object.entries(files)) writeFileSync(join(directory, name), content);
  return directory;
}

async function run(
  directory: string,
  action: string,
  more: Partial<ActionRequest> & { image?: FakeImage; world?: FakeWorld; signal?: AbortSignal } = {},
): Promise<Outcome> {
  const events: InstallationEvent[] = [];
  const { image, world, signal, ...request } = more;
  const deps: ActionDeps = {
    state,
    engine: createFakeEngine({
      ...(image === undefined ? {} : { images: { tools: image } }),
      ...(world === undefined ? {} : { world }),
    }),
    images,
    platform,
    configuredCredentials: {},
    environment: { TOKEN: 'hunter2-secret' },
    isGranted: () => false,
    emit: (event) => void events.push(event),
    signal: signal ?? new AbortController().signal,
    kill: new AbortController().signal,
    now: () => new Date(),
    directory: join(folder, 'runs'),
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

function ran(outcome: Outcome) {
  if (outcome.result.kind !== 'ran') throw new Error('it was only planned');
  return outcome.result;
}

describe('runAction', () => {
  it('goes from porter.yaml to a record', async () => {
    const directory = bundle(
      `outputs:\n  - {name: url, type: string, sensitive: false}\ninstall:\n  - description: Apply\n    id: apply\n    invoke: {name: tools, action: {command: [apply, "\${ bundle.name }"]}}\n`,
    );
    const image: FakeImage = {
      run: (process) => {
        process.stdout(`${process.argv.join(' ')} as ${process.env.CNAB_ACTION}\n`);
        process.files.write('/cnab/app/outputs/url', 'http://shop');
      },
    };

    const outcome = await run(directory, 'install', { image });

    const { result, run: record, installation } = ran(outcome);
    expect(result.state).toBe('succeeded');
    expect(record.steps).toMatchObject([
      { id: 'apply', state: 'succeeded', exitCode: 0, attempts: [{ number: 1, state: 'succeeded' }] },
    ]);
    expect(installation.status.installed).toBeDefined();
    expect(outcome.events).toContainEqual({
      type: 'step.output',
      step: 'apply',
      stream: 'stdout',
      text: 'apply shop as install\n',
    });
    expect(
      (await state.latestOutputs(installation.id)).map((output) => [
        output.name,
        Buffer.from(output.value).toString(),
      ]),
    ).toEqual([['url', 'http://shop']]);
    expect(await state.getRun(record.id)).toMatchObject({
      state: 'succeeded',
      steps: [{ id: 'apply', exitCode: 0 }],
    });
  });

  it('stops after a failure, runs always steps, and resumes where it failed', async () => {
    const directory = bundle(
      ['one', 'two', 'three']
        .map(
          (id) =>
            `  - description: ${id}\n    id: ${id}\n    invoke: {name: tools, action: {command: [${id}]}}\n`,
        )
        .reduce((text, step) => text + step, 'install:\n') +
        '  - description: clean\n    id: clean\n    always: true\n    invoke: {name: tools, action: {command: [clean]}}\n',
    );
    const world = new FakeWorld();
    const calls: string[] = [];
    let broken = true;
    const image: FakeImage = {
      run: (process) => {
        calls.push(process.argv[0] as string);
        process.files.write('seen', calls.join(' '));
        return process.argv[0] === 'two' && broken ? 3 : 0;
      },
    };

    const first = await run(directory, 'install', { image, world });
    expect(ran(first).result.error).toMatchObject({ code: 'STEP_FAILED', exitCode: 50 });
    expect(calls).toEqual(['one', 'two', 'clean']);
    expect(ran(first).run.steps.map((step) => step.state)).toEqual([
      'succeeded',
      'failed',
      'pending',
      'succeeded',
    ]);

    broken = false;
    calls.length = 0;
    const second = await run(directory, 'install', { image, world, resume: true });
    expect(ran(second).result.state).toBe('succeeded');
    expect(calls).toEqual(['two', 'three', 'clean']);
  });

  it('masks credentials in everything it tells, and gives them only to who names them', async () => {
    const directory = bundle(
      `credentials:\n  - {name: token, env: TOKEN}\ninstall:\n  - description: sees\n    id: sees\n    credentials: [token]\n    invoke: {name: tools, action: {command: [a]}}\n  - description: blind\n    id: blind\n    invoke: {name: tools, action: {command: [b]}}\n`,
    );
    const seen: (string | undefined)[] = [];
    const image: FakeImage = {
      run: (process) => {
        seen.push(process.env.TOKEN);
        process.stdout(`token is ${process.env.TOKEN ?? 'nothing'}`);
      },
    };

    const { events } = await run(directory, 'install', {
      image,
      credentials: { token: { kind: 'env', name: 'TOKEN' } },
    });

    expect(seen).toEqual(['hunter2-secret', undefined]);
    expect(JSON.stringify(events)).not.toContain('hunter2');
    expect(events).toContainEqual({
      type: 'step.output',
      step: 'sees',
      stream: 'stdout',
      text: 'token is *******',
    });
  });

  it('keeps what a run changed and restores it for the next action', async () => {
    const directory = bundle(
      'install:\n  - description: i\n    invoke: {name: tools, action: {command: [i]}}\nuninstall:\n  - description: u\n    invoke: {name: tools, action: {command: [u]}}\n',
      { 'main.tf': 'shipped' },
    );
    let found: string | undefined;
    const image: FakeImage = {
      programs: {
        i: (process) => {
          process.files.mkdir('sub');
          process.files.write('sub/terraform.tfstate', 'made');
        },
        u: (process) => {
          found = process.files.text('sub/terraform.tfstate') + process.files.text('main.tf');
        },
      },
    };

    await run(directory, 'install', { image });
    const gone = await run(directory, 'uninstall', { image });

    expect(found).toBe('madeshipped');
    expect(ran(gone).installation.status.uninstalled).toBeDefined();
  });

  it('refuses a second install, and an upgrade of nothing', async () => {
    const directory = bundle(
      'install:\n  - description: i\n    invoke: {name: tools, action: {command: [i]}}\nupgrade:\n  - description: u\n    invoke: {name: tools, action: {command: [i]}}\n',
    );
    const image: FakeImage = { run: () => 0 };

    await expect(run(directory, 'upgrade', { image })).rejects.toMatchObject({
      code: 'INSTALLATION_NOT_INSTALLED',
    });
    await run(directory, 'install', { image });
    await expect(run(directory, 'install', { image })).rejects.toMatchObject({
      code: 'INSTALLATION_EXISTS',
      exitCode: 67,
    });
  });

  it('gives one object for the outputs of a matrix', async () => {
    const directory = bundle(
      'install:\n  - description: m\n    id: m\n    matrix: {region: [eu, us]}\n    invoke:\n      name: tools\n      action: {command: [say, "${ matrix.region }"]}\n      outputs: [{name: ip, stdout: true, sensitive: false}]\n  - description: after\n    id: after\n    invoke: {name: tools, action: {command: [use, "${ bundle.outputs.ip.us }"]}}\n',
    );
    const calls: string[] = [];
    const image: FakeImage = {
      run: (process) => {
        calls.push(process.argv.join(' '));
        process.stdout(`ip-${process.argv[1]}`);
      },
    };

    await run(directory, 'install', { image });

    expect(calls.sort()).toEqual(['say eu', 'say us', 'use ip-us']);
  });

  it('plans without running for a dry run', async () => {
    const directory = bundle(
      'install:\n  - description: i\n    id: i\n    invoke: {name: tools, action: {args: ["${ installation.name }"]}}\n',
    );
    const image: FakeImage = {
      run: () => {
        throw new Error('a dry run ran something');
      },
    };

    const { result } = await run(directory, 'install', { image, dryRun: true });

    expect(result).toMatchObject({
      kind: 'planned',
      plan: { steps: [{ id: 'i', command: { argv: [{ value: 'tool' }, { value: 'mine' }] } }] },
    });
    expect(await state.listRuns({})).toEqual([]);
  });
});
