import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CaseContext } from '../contract/context.ts';
import type { Program } from '../contract/fixture.ts';
import type { ContainerRun, Session } from '../port.ts';
import { crunFixture } from './fixture.contract.ts';

const OUTPUTS = '/cnab/app/outputs';
const PRINT = `sed -n 's/.*upperdir=\\([^,]*\\),.*/\\1/p' /proc/self/mountinfo | head -n 1`;

function shell(script: string): Program {
  return { image: 'shell', argv: ['sh', '-c', script], fake: () => 0 };
}

/** Each leaves a trace, if only in a time of change. */
const CHANGES: readonly string[] = [
  'echo x >/x',
  'echo x >/x; rm /x',
  'mkdir /cnab/d',
  'mkdir /cnab/d; rmdir /cnab/d',
  'chmod 700 /',
  'chmod 700 /; chmod 755 /',
  'chmod 700 /cnab',
  'chown 5:6 /cnab',
  'chmod 711 /cnab; touch -d "2020-01-01 00:00:00" /cnab',
  'echo more >>/etc/passwd',
  'mv /etc/passwd /etc/moved; mv /etc/moved /etc/passwd',
  'ln -s / /cnab/link',
  'ln /etc/passwd /cnab/hard',
  'mkfifo /etc/fifo',
  'rm /etc/passwd',
  'touch /etc/hosts.new',
];

describe('a root that its step left as it was', () => {
  let fixture: Awaited<ReturnType<typeof crunFixture>>;
  beforeAll(async () => {
    fixture = await crunFixture();
  });
  afterAll(async () => {
    await fixture[Symbol.asyncDispose]();
  });

  interface Context extends AsyncDisposable {
    readonly session: Session;
    /** What a shell is opened for. */
    readonly shell: ContainerRun;
    /** Runs a script as one step. @returns what it printed: the writable layer first */
    step(script: string, more?: Partial<ContainerRun>): Promise<string>;
  }

  async function opened(): Promise<Context> {
    const context = new CaseContext(fixture);
    const session = await context.session();
    return {
      session,
      shell: context.container(shell(':')),
      async step(script, more) {
        // Long enough for the next root to be older than a tick when its turn comes.
        const ran = await context.run(session, shell(`${PRINT}; ${script}; sleep 0.05`), more);
        expect([ran.exit.exitCode, ran.stderr]).toEqual([0, '']);
        await session.release(ran.containerId, { keep: false });
        return ran.stdout.trim();
      },
      [Symbol.asyncDispose]: () => context[Symbol.asyncDispose](),
    };
  }

  /** Steps that change nothing, until one has a root that another had: how soon depends on the machine. */
  async function untilReused(context: Context, more?: Partial<ContainerRun>): Promise<string> {
    const seen = new Set<string>();
    for (let steps = 0; steps < 100; steps += 1) {
      const root = await context.step(':', more);
      if (seen.has(root)) return root;
      seen.add(root);
    }
    throw new Error('no root served twice');
  }

  it('serves a later step of its image, and has the mount points of that one alone', async () => {
    await using context = await opened();
    const file = {
      path: '/deep/down/file',
      content: Buffer.from('x'),
      mode: 0o444,
      sensitive: true,
      readOnly: true,
    };
    await untilReused(context, { files: [file] });
    for (let steps = 0; steps < 4; steps += 1)
      expect(await context.step('ls -d /deep /deep/*', { files: [file] })).toContain('/deep/down');
    for (let steps = 0; steps < 4; steps += 1)
      expect(await context.step('! ls -d /deep 2>/dev/null')).not.toContain('deep');
  });

  it('has hosts of its own each time', async () => {
    await using context = await opened();
    await untilReused(context);
    for (let steps = 0; steps < 3; steps += 1)
      expect(await context.step('grep -c "$(hostname)$" /etc/hosts')).toMatch(/\n1$/);
  });

  it('is not one that was changed, whatever the change', async () => {
    await using context = await opened();
    for (const change of CHANGES) {
      await untilReused(context);
      const changed = await context.step(change);
      for (let steps = 0; steps < 3; steps += 1)
        expect([change, await context.step(':')]).not.toEqual([change, changed]);
    }
  });

  it('is not one of a step that was nearly root of the host', async () => {
    await using context = await opened();
    const roots = new Set<string>();
    for (let steps = 0; steps < 6; steps += 1) roots.add(await context.step(':', { privileged: true }));
    expect(roots.size).toBe(6);
  });

  it('is not one that a shell was opened in: it may still be open', async () => {
    await using context = await opened();
    await untilReused(context);
    const roots: string[] = [];
    for (let shells = 0; shells < 3; shells += 1) {
      const command = await context.session.shellCommand(context.shell);
      const bundle = command[command.indexOf('--bundle') + 1] as string;
      const { root } = JSON.parse(readFileSync(join(bundle, 'config.json'), 'utf8')) as {
        root: { path: string };
      };
      roots.push(root.path);
      await setTimeout(50);
    }
    expect(new Set(roots).size).toBe(3);
  }, 60_000);

  it('is not one in which a file of the step lay, nor are outputs that were written handed on', async () => {
    await using context = await opened();
    await untilReused(context);
    const file = {
      path: '/etc/own',
      content: Buffer.from('x'),
      mode: 0o600,
      sensitive: false,
      readOnly: false,
    };
    // Written after it: until then a tick is over.
    const large = { ...file, path: '/cnab/app/large', content: Buffer.alloc(64 << 20), sensitive: true };
    const own = await context.step(`echo out >${OUTPUTS}/o`, { files: [file, large] });
    for (let steps = 0; steps < 4; steps += 1) {
      const [root, ...rest] = (await context.step(`ls -A ${OUTPUTS}; ls /etc/own 2>/dev/null; :`)).split(
        '\n',
      );
      expect(rest).toEqual([]);
      expect(root).not.toBe(own);
    }
  });

  it('keeps an output folder that was written to from the next step, whoever its user is', async () => {
    await using context = await opened();
    await untilReused(context);
    for (const user of ['', '1000', '', '65532']) {
      const [, ...said] = (
        await context.step(`ls -A ${OUTPUTS}; stat -c %u ${OUTPUTS}; echo x >${OUTPUTS}/x`, { user })
      ).split('\n');
      expect(said).toEqual([user === '' ? '0' : user]);
    }
  });
});
