import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { aloneWith } from '../support/alone.ts';
import { debianTools } from '../support/debian-tools.ts';
import { enginesToTest, engineTrouble } from '../support/engines.ts';
import { type KubernetesApi, startKubernetesApi } from '../support/kubernetes-api.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

const example = join(import.meta.dirname, '../../examples/kubectl-and-docker');
const image = 'skycap-example-greeter';

// Its docker step needs a daemon, whatever engine runs it.
const engines = enginesToTest('oci-runtime', 'docker').includes('docker') ? enginesToTest('oci-runtime') : [];

describe.each(engines)('examples/kubectl-and-docker on %s', (engine) => {
  let alone: Disposable;
  let world: World;
  let api: KubernetesApi;
  let cwd: string;

  beforeAll(async () => {
    alone = await aloneWith(image);
    world = await makeWorld(engine);
    api = await startKubernetesApi();
    const kubectl = await debianTools('kubectl', 'kubernetes-client:/usr/bin/kubectl');
    const docker = await debianTools('docker', 'docker.io:/usr/bin/docker');
    for (const [folder, name] of [
      [kubectl, 'kubectl:1'],
      [docker, 'docker:1'],
    ] as const) {
      expectCode(await world.skycap(['image', 'import', folder, `${world.registry}/${name}`]), 0);
      expectCode(await world.skycap(['image', 'push', `${world.registry}/${name}`]), 0);
    }
    mkdirSync(join(world.directory, 'config/skycap'), { recursive: true });
    writeFileSync(
      join(world.directory, 'config/skycap/config.yaml'),
      `registries:\n  - prefix: tools.example\n    location: ${world.registry}\n`,
    );
    writeFileSync(join(world.directory, 'kubeconfig'), api.kubeconfig);
    cwd = join(world.directory, 'example');
    cpSync(example, cwd, { recursive: true });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
  }, 600_000);
  afterAll(async () => {
    if (engineTrouble('docker') === undefined && holdsImage()) execFileSync('docker', ['image', 'rm', image]);
    await api?.[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
    alone[Symbol.dispose]();
  });

  const holdsImage = (): boolean =>
    execFileSync('docker', ['image', 'ls', '--quiet', image], { encoding: 'utf8' }).trim() !== '';
  const act = (...args: string[]) =>
    world.skycap(
      [
        ...args,
        '--credential',
        `kubeconfig=path:${world.directory}/kubeconfig`,
        '--allow-docker-host-access=docker-tools',
      ],
      { cwd },
    );

  it('does nothing without the operator’s consent to the Docker socket', async () => {
    const ran = await world.skycap(
      ['install', '--credential', `kubeconfig=path:${world.directory}/kubeconfig`],
      { cwd },
    );

    expect(ran.code).not.toBe(0);
    expect(ran.stderr).toContain('--allow-docker-host-access=docker-tools');
    expect(api.requests).toEqual([]);
  });

  it('applies with kubectl and runs a container with docker', async () => {
    const settings = '/api/v1/namespaces/default/configmaps/shop';

    expectCode(await act('install', '--param', 'greeting=it\'s $(me) "ünd"'), 0);
    expect(api.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      `GET ${settings}`,
      `POST ${settings.slice(0, settings.lastIndexOf('/'))}`,
    ]);
    expect(api.objects.get(settings)).toMatchObject({ kind: 'ConfigMap', data: { currency: 'EUR' } });
    const said = await world.skycap(['output', 'show', 'said', '-i', 'kubectl-and-docker'], { cwd });
    expect(said.stdout.trim()).toBe('it\'s $(me) "ünd" from Linux');
    expect(holdsImage()).toBe(true);

    const file = join(cwd, 'settings.yaml');
    writeFileSync(file, execFileSync('sed', ['s/EUR/CHF/', file]));
    expectCode(await act('upgrade'), 0);
    expect(api.requests.at(-1)).toMatchObject({ method: 'PATCH', path: settings });
    expect(api.objects.get(settings)).toMatchObject({ data: { currency: 'CHF' } });

    expectCode(await act('uninstall'), 0);
    expect(api.objects.size).toBe(0);
    expect(holdsImage()).toBe(false);
  });
});
