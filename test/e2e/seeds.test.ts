import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { debianRegistry, type RunningRegistry } from '../../src/testkit/registry/index.ts';
import { aloneWith } from '../support/alone.ts';
import { debianTools } from '../support/debian-tools.ts';
import { enginesToTest, engineTrouble } from '../support/engines.ts';
import { helm, kubectl, terraform } from '../support/stand-ins.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

const seeds = join(import.meta.dirname, '../data/seed-bundles');

describe.each(enginesToTest('oci-runtime', 'docker'))("the proposal's bundles on %s", (engine) => {
  let world: World;
  let registry: RunningRegistry;

  beforeAll(async () => {
    world = await makeWorld(engine);
    registry = await debianRegistry({ kind: 'open' });
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

  describe('cicd-bundle with its image declared', () => {
    const container = 'myapp-container';
    const docker = (...args: string[]): string =>
      execFileSync('docker', args, { encoding: 'utf8', stdio: 'pipe' }).trim();
    const isThere = (): boolean => docker('ps', '-aq', '--filter', `name=^${container}$`) !== '';
    let alone: Disposable;
    let cwd: string;
    let port: number;
    let digest: string;

    beforeAll(async () => {
      expect(engineTrouble('docker'), 'it runs on a Docker daemon').toBeUndefined();
      alone = await aloneWith(container);
      expect(isThere(), `a container ${container} that is not ours`).toBe(false);
      const tools = 'container/docker-invocation-image:stable';
      const folder = await debianTools('docker', 'docker.io:/usr/bin/docker');
      expectCode(await world.skycap(['image', 'import', folder, `localhost/${tools}`]), 0);
      expectCode(await world.skycap(['image', 'push', `localhost/${tools}`, `${registry.host}/${tools}`]), 0);
      digest = await myapp('one');
      port = (await isFree(80)) ? 80 : await freePort();
      cwd = seed('cicd-bundle');
      declare(digest);
    }, 600_000);
    afterAll(() => {
      if (alone !== undefined && isThere()) docker('rm', '-f', '-v', container);
      for (const id of docker('image', 'ls', '-q', `${registry.host}/myorg/myapp`).split('\n'))
        if (id !== '') docker('image', 'rm', '-f', id);
      alone?.[Symbol.dispose]();
    });

    /** A web server that says its name, on Docker's registry; the digest. */
    async function myapp(says: string): Promise<string> {
      const reference = await world.image(`myorg/myapp:${says}`, {
        busybox: true,
        files: { 'www/index.html': says },
        config: { cmd: ['httpd', '-f', '-p', '80', '-h', '/www'] },
      });
      expectCode(await world.skycap(['image', 'pull', reference]), 0);
      const target = `${registry.host}/myorg/myapp:${says}`;
      expectCode(await world.skycap(['image', 'push', reference, target]), 0);
      const shown = await world.skycap(['image', 'inspect', reference, '-o', 'json']);
      return expectCode(shown, 0).json<{ digest: string }>().digest;
    }

    /** The bundle's text as it is, but for the image it lacks, and for the host's port where 80 is taken. */
    function declare(pinned: string): void {
      const text = readFileSync(join(seeds, 'cicd-bundle/porter.yaml'), 'utf8');
      writeFileSync(
        join(cwd, 'porter.yaml'),
        `${text.replaceAll('-p 80:80', `-p ${port}:80`)}
images:
  myapp:
    repository: ${registry.host}/myorg/myapp
    digest: ${pinned}
`,
      );
    }

    const act = (action: string) =>
      world.skycap([action, '--allow-docker-host-access=docker-tools'], { cwd });
    const says = async (): Promise<string> => {
      // dockerd answers `run -d` when the process has started, not when it listens.
      for (let tries = 0; ; tries += 1) {
        try {
          return await (await fetch(`http://127.0.0.1:${port}/`)).text();
        } catch (cause) {
          if (tries === 1200) throw cause;
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
      }
    };

    it('installs, upgrades and uninstalls a container of the daemon', async () => {
      expectCode(await world.skycap(['lock'], { cwd }), 0);
      const alone = expectCode(await world.skycap(['install'], { cwd }), 50);
      expect(alone.stderr).toContain('Cannot connect to the Docker daemon');
      expect(isThere()).toBe(false);

      expectCode(await act('install'), 0);
      expect(await says()).toBe('one');
      expect(docker('inspect', '--format', '{{.Config.Image}}', container)).toBe(
        `${registry.host}/myorg/myapp@${digest}`,
      );

      declare(await myapp('two'));
      expectCode(await world.skycap(['lock', '--update'], { cwd }), 0);
      expectCode(await act('upgrade'), 0);
      expect(await says()).toBe('two');

      expectCode(await act('uninstall'), 0);
      expect(isThere()).toBe(false);
    });
  });
});

/** Of those that the kernel gives to nobody who does not ask for it: the daemon takes it some time later. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 30_000);
    if (await isFree(port)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const free = await new Promise<boolean>((resolve) => {
    server.on('error', () => resolve(false));
    server.listen(port, () => resolve(true));
  });
  if (free) await new Promise((resolve) => server.close(resolve));
  return free;
}
