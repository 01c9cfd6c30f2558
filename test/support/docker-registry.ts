import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Debian's docker-registry as a process of its own on a free port of loopback. */
export interface DockerRegistry extends AsyncDisposable {
  readonly host: string;
}

export async function startDockerRegistry(): Promise<DockerRegistry> {
  const directory = mkdtempSync(join(tmpdir(), 'skycap-registry-'));
  const port = await freePort();
  const config = join(directory, 'config.yml');
  writeFileSync(
    config,
    `version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: ${directory}/data}}\nhttp: {addr: "127.0.0.1:${port}"}\n`,
  );
  const child = spawn('docker-registry', ['serve', config], { stdio: 'ignore' });
  const gone = new Promise<void>((resolve) => child.on('close', () => resolve()));
  const host = `127.0.0.1:${port}`;
  for (let tries = 0; !(await answers(host)); tries += 1) {
    if (tries > 200 || child.exitCode !== null) throw new Error('docker-registry did not start');
    await sleep(50);
  }
  return {
    host,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await gone;
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

async function answers(host: string): Promise<boolean> {
  try {
    return (await fetch(`http://${host}/v2/`)).ok;
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
