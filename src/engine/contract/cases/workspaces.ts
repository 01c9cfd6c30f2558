import { expect } from 'vitest';
import { packArchive, packFiles } from '../../archive.ts';
import { type ContractCase, contractCase } from '../case.ts';
import { exits, reads, sh, writes } from '../programs.ts';

const tryWrite = sh('echo x >new 2>/dev/null && exit 0; exit 9', (p) => {
  try {
    p.files.write('new', 'x');
    return 0;
  } catch {
    return 9;
  }
});

export const workspaceCases: readonly ContractCase[] = [
  contractCase('ws-put-run-get', 'files go in, a container changes them, files come out', async (context) => {
    const session = await context.session();
    await session.workspace.put(
      packFiles({ 'in/name': 'you', 'run.sh': { content: 'echo hi', mode: 0o755 } }),
    );
    const ran = await context.run(
      session,
      sh('cat in/name; test -x run.sh || exit 3; mkdir -p out && printf made >out/new && rm in/name', (p) => {
        p.stdout(p.files.text('in/name'));
        p.files.mkdir('out');
        p.files.write('out/new', 'made');
        p.files.remove('in/name');
      }),
    );
    expect([ran.stdout, ran.stderr, ran.exit.exitCode]).toEqual(['you', '', 0]);
    expect(await context.files(session, ['in', 'out', 'run.sh', 'absent'])).toEqual({
      'out/new': 'made',
      'run.sh': 'echo hi',
    });
  }),
  contractCase('ws-put-replaces', 'a later archive replaces files and keeps the rest', async (context) => {
    const session = await context.session();
    await session.workspace.put(packFiles({ a: 'old', b: 'kept' }));
    await session.workspace.put(packFiles({ a: 'new' }));
    expect(await context.files(session, ['a', 'b'])).toEqual({ a: 'new', b: 'kept' });
  }),
  contractCase('ws-links', 'symbolic links go in and out as links', async (context) => {
    const session = await context.session();
    await session.workspace.put(
      packArchive([
        { path: 'd', type: 'directory' },
        { path: 'd/dangling', type: 'symlink', linkTarget: 'nowhere' },
        { path: 'out', type: 'symlink', linkTarget: '/etc/passwd' },
      ]),
    );
    expect(await context.files(session, ['d', 'out'])).toEqual({
      'd/dangling': '-> nowhere',
      out: '-> /etc/passwd',
    });
  }),
  contractCase(
    'ws-put-no-escape',
    'an archive cannot write through a link that a container planted',
    async (context) => {
      const session = await context.session();
      await context.run(
        session,
        sh('ln -s /tmp planted', (p) => p.files.symlink('/tmp', 'planted')),
      );
      const put = session.workspace.put(packFiles({ 'planted/contract-escape': 'x' }));
      await put.catch(() => {});
      const { existsSync } = await import('node:fs');
      expect(existsSync('/tmp/contract-escape')).toBe(false);
      await expect(session.workspace.put(packFiles({ '../escape': 'x' }))).rejects.toMatchObject({
        code: 'ENGINE_ARCHIVE_INVALID',
      });
    },
  ),
  contractCase('ws-snapshot', 'equal fingerprints mean equal content', async (context) => {
    const session = await context.session();
    await session.workspace.put(packFiles({ same: 'same', changed: 'before', gone: 'x' }));
    const before = new Map((await session.workspace.snapshot()).map((entry) => [entry.path, entry]));
    await context.run(
      session,
      sh('printf "after!" >changed; rm gone; printf new >fresh', (p) => {
        p.files.write('changed', 'after!');
        p.files.remove('gone');
        p.files.write('fresh', 'new');
      }),
    );
    const after = new Map((await session.workspace.snapshot()).map((entry) => [entry.path, entry]));
    expect([...after.keys()].sort()).toEqual(['changed', 'fresh', 'same']);
    expect(after.get('same')?.fingerprint).toBe(before.get('same')?.fingerprint);
    expect(after.get('changed')?.fingerprint).not.toBe(before.get('changed')?.fingerprint);
    expect(after.get('fresh')).toMatchObject({ type: 'file', sizeBytes: 3 });
  }),
  contractCase('ws-remove', 'paths can be removed, folders with what is in them', async (context) => {
    const session = await context.session();
    await session.workspace.put(packFiles({ 'd/a': '1', 'd/b': '2', c: '3' }));
    await session.workspace.remove(['d', 'not-there']);
    expect((await session.workspace.snapshot()).map((entry) => entry.path)).toEqual(['c']);
  }),
  contractCase('ws-read-only', 'a read-only workspace can be read and not written', async (context) => {
    const session = await context.session();
    await session.workspace.put(packFiles({ a: 'content' }));
    expect((await context.run(session, reads('a'), { workspace: 'ro' })).stdout).toBe('content');
    expect((await context.run(session, tryWrite, { workspace: 'ro' })).exit.exitCode).toBe(9);
    expect((await context.run(session, tryWrite)).exit.exitCode).toBe(0);
  }),
  contractCase(
    'ws-read-only-outputs',
    'outputs can be written beside a read-only workspace',
    async (context) => {
      const session = await context.session();
      const ran = await context.run(session, writes('outputs/x', 'yes'), { workspace: 'ro' });
      expect(ran.stderr).toBe('');
      expect((await context.collect(session, ran)).map((file) => file.path)).toEqual(['/cnab/app/outputs/x']);
    },
  ),
  contractCase('ws-none', 'without a workspace its files are not there', async (context) => {
    const session = await context.session();
    await session.workspace.put(packFiles({ a: 'content' }));
    expect((await context.run(session, reads('/cnab/app/a'), { workspace: 'none' })).exit.exitCode).toBe(1);
    const shipped = await context.run(session, reads('/cnab/app/shipped/hello'), { workspace: 'none' });
    expect(shipped.stdout).toBe('from the image\n');
  }),
  contractCase(
    'ws-users',
    'each step reads, changes and removes what steps of other users left, 0600 and 0700',
    async (context) => {
      const session = await context.session();
      await session.workspace.put(packFiles({ 'host/file': 'from the host' }));
      const users = ['', '1000:50', '4242', 'user', '0:0'];
      for (const [at, user] of users.entries()) {
        const before = at - 1;
        const script = `
        umask 077
        ${at === 0 ? '' : `printf "$(cat private${before}/f)+" >private${before}/f && chmod 700 private${before} && mv private${before}/f took && rm -r private${before}`}
        mkdir private${at} && printf ${at} >private${at}/f
        printf x >>host/file && cat host/file >/dev/null`;
        const ran = await context.run(
          session,
          sh(script, (p) => {
            if (at > 0) {
              p.files.write('took', `${p.files.text(`private${before}/f`)}+`, 0o600);
              p.files.remove(`private${before}`);
            }
            p.files.mkdir(`private${at}`, 0o700);
            p.files.write(`private${at}/f`, String(at), 0o600);
            p.files.write('host/file', `${p.files.text('host/file')}x`);
          }),
          { user },
        );
        expect([user, ran.stderr, ran.exit.exitCode]).toEqual([user, '', 0]);
      }
      expect(await context.files(session, ['took', 'host'])).toEqual({
        took: '3+',
        'host/file': `from the host${'x'.repeat(5)}`,
      });
    },
  ),
  contractCase(
    'ws-foreign',
    'files that a root step gave to another user are the next step’s all the same',
    async (context) => {
      const session = await context.session();
      const left = await context.run(
        session,
        sh('umask 077; mkdir other && echo x >other/f && chown -R 77:88 other', (p) => {
          p.files.mkdir('other', 0o700);
          p.files.write('other/f', 'x\n', 0o600);
        }),
      );
      expect(left.stderr).toBe('');
      const took = await context.run(
        session,
        sh('cat other/f && rm -r other', (p) => {
          p.stdout(p.files.read('other/f'));
          p.files.remove('other');
        }),
        { user: '1000' },
      );
      expect([took.stdout, took.stderr]).toEqual(['x\n', '']);
    },
  ),
  contractCase(
    'ws-takeover',
    'a kept workspace is taken over by a later run, without what was mounted in it',
    async (context) => {
      const first = await context.session();
      await first.workspace.put(packFiles({ a: '1' }));
      await context.run(first, writes('b', '2'), {
        files: [
          {
            path: '/cnab/app/mounted',
            content: Buffer.from('x'),
            mode: 0o444,
            sensitive: true,
            readOnly: true,
          },
        ],
      });
      await first.close({ keepWorkspace: true });
      const second = await context.session({ workspaceOf: first.runId });
      expect((await second.workspace.snapshot()).map((entry) => entry.path).sort()).toEqual(['a', 'b']);
      await second.close({ keepWorkspace: false });
      await expect(context.session({ workspaceOf: second.runId })).rejects.toMatchObject({
        code: 'ENGINE_SESSION_FAILED',
      });
    },
  ),
  contractCase('ws-image-archive', 'files of an image can be read without running it', async (context) => {
    const session = await context.session();
    const archive = await session.imageArchive('shell', '/cnab/app');
    expect(archive).toBeDefined();
    await session.workspace.put(archive as AsyncIterable<Uint8Array>);
    expect(await context.files(session, ['shipped'])).toEqual({ 'shipped/hello': 'from the image\n' });
    expect(await session.imageArchive('scratch', '/cnab/app')).toBeUndefined();
  }),
  contractCase('ws-home-own', 'home and /tmp go with the container', async (context) => {
    const session = await context.session();
    await context.run(session, writes('/tmp/x', '1'));
    expect((await context.run(session, reads('/tmp/x'))).exit.exitCode).toBe(1);
  }),
  contractCase(
    'ws-home-shared',
    'a shared home is one for the run, as /root and /home/nonroot, with /tmp, for every user',
    async (context) => {
      const session = await context.session();
      const shared = { home: 'shared' } as const;
      await context.run(session, writes('/home/nonroot/x', 'home', 0o600), { ...shared, user: '1000' });
      await context.run(session, writes('/tmp/y', 'tmp', 0o600), { ...shared, user: '4242' });
      expect((await context.run(session, reads('/root/x'), { ...shared, user: '7' })).stdout).toBe('home');
      expect((await context.run(session, reads('/tmp/y'), shared)).stdout).toBe('tmp');
      expect((await context.run(session, reads('/root/x'))).exit.exitCode).toBe(1);
    },
  ),
  contractCase(
    'ws-volume-run',
    'a volume of the run is shared by its steps and goes with it',
    async (context) => {
      const volumes = [{ name: 'cache', path: '/var/cache/tool', scope: 'run' }] as const;
      const session = await context.session();
      await context.run(session, writes('/var/cache/tool/x', '1', 0o600), { volumes, user: '1000' });
      expect((await context.run(session, reads('/var/cache/tool/x'), { volumes, user: '7' })).stdout).toBe(
        '1',
      );
      const other = await context.session();
      expect((await context.run(other, reads('/var/cache/tool/x'), { volumes })).exit.exitCode).toBe(1);
    },
  ),
  contractCase(
    'ws-volume-installation',
    'a volume of the installation outlives the run until it is removed',
    async (context) => {
      const volumes = [{ name: 'cache', path: '/var/cache/tool', scope: 'installation' }] as const;
      const spec = context.spec();
      const first = await context.fixture.engine.open(spec, context.operation);
      await context.run(first, writes('/var/cache/tool/x', '1', 0o600), { volumes, user: '1000' });
      await first.close({ keepWorkspace: false });
      const second = await context.session({ installationId: spec.installationId });
      expect((await context.run(second, reads('/var/cache/tool/x'), { volumes })).stdout).toBe('1');
      await second.close({ keepWorkspace: false });
      await context.fixture.engine.removeVolumes(spec.installationId, context.operation);
      const third = await context.session({ installationId: spec.installationId });
      expect((await context.run(third, reads('/var/cache/tool/x'), { volumes })).exit.exitCode).toBe(1);
    },
  ),
  contractCase('ws-volume-refused', 'no volume covers /cnab, /etc or /usr', async (context) => {
    const session = await context.session();
    for (const path of ['/cnab', '/etc/ssl', '/usr/lib', '/', '/a/../etc']) {
      const volumes = [{ name: 'v', path, scope: 'run' }] as const;
      await expect(context.run(session, exits(0), { volumes })).rejects.toMatchObject({
        code: 'ENGINE_VOLUME_REFUSED',
      });
    }
  }),
];
