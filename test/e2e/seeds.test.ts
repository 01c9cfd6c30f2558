import { cpSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type DockerRegistry, startDockerRegistry } from '../support/docker-registry.ts';
import { enginesToTest } from '../support/engines.ts';
import { helm, kubectl, terraform } from '../support/stand-ins.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

const seeds = join(import.meta.dirname, '../data/seed-bundles');

describe.each(enginesToTest('oci-runtime', 'docker'))("the proposal's bundles on %s", (engine) => {
  let world: World;
  let registry: DockerRegistry;

  beforeAll(async () => {
    world = await makeWorld(engine);
    registry = await startDockerRegistry();
    const tools = {
      'myorg/terraform-invocation-image:latest': ['terraform', terraform],
      'infra/terraform-invocation-image:latest': ['terraform', terraform],
      'myorg/helm-invocation-image:stable': ['helm', helm],
      'devteam/k8s-invocation-image:latest': ['kubectl', kubectl],
    } as const;
    for (const [name, [tool, script]] of Object.entries(tools)) {
      const reference = await world.image(name, {
        busybox: true,
        files: { [`bin/${tool}`]: { content: script, mode: 0o755 } },
      });
      expectCode(await world.skycap(['image', 'pull', reference]), 0);
      expectCode(await world.skycap(['image', 'push', reference, `${registry.host}/${name}`]), 0);
    }
    mkdirSync(join(world.directory, 'config/skycap'), { recursive: true });
    writeFileSync(
      join(world.directory, 'config/skycap/config.yaml'),
      `registries:\n  - prefix: ghcr.io\n    location: ${registry.host}\n`,
    );
  });
  afterAll(async () => {
    await registry[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
  });

  function seed(name: string): string {
    const folder = mkdtempSync(join(world.directory, 'seed-'));
    cpSync(join(seeds, name), folder, { recursive: true });
    return folder;
  }

  it.each([
    ['my-porter-bundle', ['install']],
    ['k8s-deployment-bundle', ['install', 'upgrade', 'uninstall']],
    ['infra-management-bundle', ['install', 'upgrade', 'uninstall']],
  ])('%s runs unchanged', async (name, actions) => {
    const cwd = seed(name);
    expectCode(await world.skycap(['lock'], { cwd }), 0);

    for (const action of actions) {
      const ran = expectCode(await world.skycap([action], { cwd }), 0);
      expect(ran.stderr).toContain(`stand-in: ${name} ${action} `);
    }

    expect(readFileSync(join(cwd, 'porter.yaml'))).toEqual(readFileSync(join(seeds, name, 'porter.yaml')));
  });

  it('B6 says that there is nothing to run where a bundle has no uninstall', async () => {
    const cwd = seed('my-porter-bundle');

    const ran = expectCode(await world.skycap(['uninstall'], { cwd }), 0);

    expect(ran.stderr).toMatch(/nothing to run/);
    const shown = expectCode(
      await world.skycap(['installation', 'show', 'my-porter-bundle', '-o', 'json']),
      0,
    );
    expect(shown.json()).toMatchObject({ status: { action: 'uninstall', resultStatus: 'succeeded' } });
  });

  it.each([
    [
      'another command line',
      (text: string) => text.replace('apply -f', 'apply --force -f'),
      'unexpected call',
    ],
    [
      'another folder',
      (text: string) => text.replace('run: kubectl apply', 'run: cd / && kubectl apply'),
      'working directory',
    ],
  ])('a stand-in notices %s', async (_name, edit, message) => {
    const cwd = seed('k8s-deployment-bundle');
    const file = join(cwd, 'porter.yaml');
    writeFileSync(file, edit(readFileSync(file, 'utf8')));
    expectCode(await world.skycap(['lock'], { cwd }), 0);

    const ran = expectCode(await world.skycap(['install', 'noticed', '--force'], { cwd }), 50);

    expect(ran.stderr).toContain(message);
    expect(ran.stderr).toContain('64');
  });

  it('cicd-bundle is refused at line and column', async () => {
    const ran = expectCode(await world.skycap(['lint'], { cwd: seed('cicd-bundle') }), 10);

    expect(ran.stdout + ran.stderr).toMatch(
      /porter\.yaml:15:75: error: bundle\.images\.myapp does not exist/,
    );
    expect(ran.stdout + ran.stderr).toContain('declare it');
  });
});
