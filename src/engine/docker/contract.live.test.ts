import { execFile, execFileSync, spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, it } from 'vitest';
import { loadStore, type PinnedImage } from '../../oci/index.ts';
import { busyboxRootfs, makeImage } from '../../testkit/images/index.ts';
import { type ContractFixture, engineContract } from '../contract/suite.contract.ts';
import { createDockerEngine, probeDocker } from './index.ts';

const socketPath = process.env.SKYCAP_TEST_DOCKER_SOCKET ?? '/var/run/docker.sock';
const probe = await probeDocker(socketPath);

/** Ended by the case that called it; says when its container runs. */
const ORPHAN = `
  const { createDockerEngine } = await import(process.argv[1]);
  const input = JSON.parse(process.argv[2]);
  const bytes = (file) => ({ ...file, content: Buffer.from(file.content, 'base64') });
  const engine = await createDockerEngine({ ...input.options, store: {}, archivesOnly: true });
  const operation = { signal: new AbortController().signal, emit() {} };
  const never = new AbortController().signal;
  const session = await engine.open(input.spec, operation);
  const run = { ...input.run, files: input.run.files.map(bytes) };
  await session.run(run, { onOutput() {}, onStarted: () => console.log('started'), signal: never, kill: never });
`;

async function fixture(): Promise<ContractFixture> {
  const folder = await mkdtemp(join(tmpdir(), 'skycap-contract-'));
  const memory = await mkdtemp('/dev/shm/skycap-contract-');
  const { openStore } = await loadStore();
  const store = await openStore({ directory: join(folder, 'store') });
  // Docker gives a file the mode of whichever of its names comes last.
  const userland = (await busyboxRootfs()).map((file) =>
    file.type === 'link' ? { ...file, mode: 0o755 } : file,
  );
  const shell = await makeImage(store, {
    reference: 'registry.test/contract/shell:1',
    layers: [
      { files: userland },
      { files: [{ path: 'cnab/app/shipped/hello', content: 'from the image\n' }] },
    ],
  });
  const binary = { content: await readFile('/bin/busybox'), mode: 0o755 };
  const scratch = await makeImage(store, {
    reference: 'registry.test/contract/scratch:1',
    files: { busybox: binary },
  });
  const images: Record<'shell' | 'scratch', PinnedImage> = { shell, scratch };
  const uid = process.getuid?.() ?? 0;
  const options = { socketPath, runtimeDirectory: memory, workDirectory: folder, uid };
  const engine = await createDockerEngine({ ...options, store });
  const docker = async (...args: string[]): Promise<readonly string[]> =>
    (await promisify(execFile)('docker', ['--host', `unix://${socketPath}`, ...args])).stdout.split('\n');
  const folders = (): readonly string[] =>
    [memory, folder].flatMap((at) => readdirSync(join(at, 'docker')).filter((one) => one.startsWith('run-')));
  return {
    engine,
    images,
    // Cases run at once, and others use the same daemon.
    async leftovers(runs) {
      const ids = runs.flatMap(({ runId, installationId }) => [runId, installationId]);
      const found = await Promise.all([
        docker('ps', '-a', '--format', 'container {{.Names}} {{.Labels}}'),
        docker('volume', 'ls', '--format', 'volume {{.Name}} {{.Labels}}'),
        docker('network', 'ls', '--format', 'network {{.Name}} {{.Labels}}'),
      ]);
      return [...found.flat(), ...folders()].filter((line) => ids.some((id) => line.includes(id)));
    },
    async orphan(spec, run) {
      const coded = {
        ...run,
        files: run.files.map((file) => ({ ...file, content: Buffer.from(file.content).toString('base64') })),
      };
      const args = [
        '--no-warnings',
        '--input-type=module',
        '-e',
        ORPHAN,
        join(import.meta.dirname, 'index.ts'),
        JSON.stringify({ options, spec, run: coded }),
      ];
      // The daemon has the images already, so that the other process needs no store.
      const { ensureImage } = await import('./images.ts');
      const { DockerApi } = await import('./api.ts');
      await using api = new DockerApi(socketPath);
      for (const image of Object.values(spec.images))
        await ensureImage(api, image, { store, signal: new AbortController().signal });
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
      const started = Promise.withResolvers<void>();
      child.stdout.once('data', () => started.resolve());
      child.once('exit', () => started.reject(new Error('the other process ended before its container ran')));
      await started.promise;
      child.removeAllListeners('exit');
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await gone;
    },
    async [Symbol.asyncDispose]() {
      const left = folders();
      await engine[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
      await rm(memory, { recursive: true, force: true });
      for (const image of Object.values(images)) {
        execFileSync('docker', ['--host', `unix://${socketPath}`, 'image', 'rm', '-f', image.configDigest], {
          stdio: 'ignore',
        });
      }
      if (left.length > 0) throw new Error(`left behind: ${left.join(', ')}`);
    },
  };
}

// Of what a case takes, most is waiting for the daemon.
if (probe.fits) engineContract('docker', fixture, { concurrent: true });
else {
  const said = `engine contract: docker is not tested: ${probe.reason}`;
  process.stderr.write(`${said}\n`);
  describe('engine contract: docker', () => {
    const required = process.env.SKYCAP_REQUIRE_ENGINES === '1';
    it.skipIf(!required)('is there', () => {
      throw new Error(said);
    });
  });
}
