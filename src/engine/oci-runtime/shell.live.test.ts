import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exited } from '../../kernel/system/index.ts';
import { CaseContext } from '../contract/context.ts';
import type { Program } from '../contract/fixture.ts';
import { crunFixture } from './fixture.contract.ts';
import { createOciRuntimeEngine } from './index.ts';

function shell(script: string): Program {
  return { image: 'shell', argv: ['sh', '-c', script], fake: () => 0 };
}

/** Types into a program that is given a terminal by script(1). */
async function typed(command: readonly string[], input: string): Promise<{ code: number; text: string }> {
  const quoted = command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
  const child = spawn('script', ['-qec', quoted, '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => {
    const first = text === '';
    text += chunk;
    // The prompt: what is typed before it is lost when the terminal is set up.
    if (first) child.stdin.write(input);
  });
  return { code: await exited(child), text };
}

describe('shells and sockets on crun', () => {
  let fixture: Awaited<ReturnType<typeof crunFixture>>;
  beforeAll(async () => {
    fixture = await crunFixture();
  }, 120_000);
  afterAll(async () => {
    await fixture[Symbol.asyncDispose]();
  });

  it('opens a shell in a kept container after its session is closed', async () => {
    await using context = new CaseContext(fixture);
    const session = await context.session();
    const ran = await context.run(session, shell('echo left >/tmp/x; echo shared >in-workspace'), {
      user: '1000',
    });
    const kept = await session.release(ran.containerId, { keep: true });
    await session.close({ keepWorkspace: true });
    const { code, text } = await typed(kept?.shell ?? [], 'cat /tmp/x in-workspace; id -u; exit 3\n');
    expect(text).toMatch(/left\r\nshared\r\n1000\r\n/);
    expect(code).toBe(3);

    // The layers that the shell mounts are kept until the run is swept.
    const leases = (): string[] => {
      const folder = join(fixture.directories.store, 'leases');
      return readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8'));
    };
    const mine = (lease: string): boolean => lease.includes(`kept-${session.runId}`);
    expect(leases().filter(mine)).toHaveLength(1);
    await fixture.engine.sweep(session.runId, { signal: new AbortController().signal, emit: () => {} });
    expect(leases().filter(mine)).toEqual([]);
  });

  it('opens a shell with the files, user and workspace of a step', async () => {
    await using context = new CaseContext(fixture);
    const session = await context.session();
    await context.run(session, shell('echo earlier >f'));
    const again = context.container(shell('exit 1'), {
      argv: ['/bin/sh'],
      user: '1000',
      files: [
        { path: '/run/key', content: Buffer.from('given'), mode: 0o400, sensitive: true, readOnly: true },
      ],
    });
    const { code, text } = await typed(await session.shellCommand(again), 'cat f /run/key; exit 4\n');
    expect(text).toContain('earlier\r\ngiven');
    expect(code).toBe(4);
  });

  it('gives a step the Docker socket whatever its user, and only if asked', async () => {
    const folder = mkdtempSync('/var/tmp/engine-socket-');
    const socket = join(folder, 'docker.sock');
    const server = createServer((_request, response) => response.end('reached the daemon'));
    await new Promise<void>((resolve) => server.listen(socket, resolve));
    try {
      const { chmodSync, chownSync } = await import('node:fs');
      chmodSync(socket, 0o660);
      chownSync(socket, 0, 998);
      const { openStore } = await import('../../oci/store/index.ts');
      const engine = createOciRuntimeEngine({
        store: await openStore({ directory: fixture.directories.store }),
        runtime: '/usr/bin/crun',
        stateDirectory: fixture.directories.state,
        runtimeDirectory: fixture.directories.runtime,
        dockerSocket: socket,
      });
      await using context = new CaseContext({ ...fixture, engine });
      const session = await context.session();
      const ask = shell('test -S /var/run/docker.sock && test -w /var/run/docker.sock && echo open');
      for (const user of ['', '1000', '4242:50']) {
        const ran = await context.run(session, ask, { dockerSocket: true, user });
        expect([user, ran.stdout]).toEqual([user, 'open\n']);
      }
      expect((await context.run(session, ask)).stdout).toBe('');
    } finally {
      server.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('shares the host’s network only if asked', async () => {
    const server = createTcpServer((socket) => socket.end('reached the host'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    try {
      await using context = new CaseContext(fixture);
      const session = await context.session();
      const ask = shell(`nc -w 60 127.0.0.1 ${port} </dev/null 2>/dev/null; true`);
      expect((await context.run(session, ask, { network: 'host' })).stdout).toBe('reached the host');
      expect((await context.run(session, ask)).stdout).toBe('');
    } finally {
      server.close();
    }
  });

  it('says what a network needs when it cannot be made, and leaves nothing', async () => {
    await using context = new CaseContext(fixture);
    const spec = context.spec({ images: {}, network: true });
    const signal = AbortSignal.abort(new Error('stop'));
    await expect(fixture.engine.open(spec, { signal, emit: () => {} })).rejects.toThrow('stop');
    expect(existsSync(join(fixture.directories.runtime, spec.runId))).toBe(false);
  });
});
