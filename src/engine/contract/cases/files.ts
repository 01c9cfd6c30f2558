import { expect } from 'vitest';
import type { ContainerFile } from '../../port.ts';
import { type ContractCase, contractCase } from '../case.ts';
import type { Program } from '../fixture.ts';
import { exits, reads, sh } from '../programs.ts';

function given(path: string, content: string, more: Partial<ContainerFile> = {}): ContainerFile {
  return { path, content: Buffer.from(content), mode: 0o400, sensitive: false, readOnly: true, ...more };
}

const overwrite = (path: string): Program =>
  sh(`(echo changed >${path}) 2>/dev/null && exit 0; exit 9`, (p) => {
    try {
      p.files.write(path, 'changed\n');
      return 0;
    } catch {
      return 9;
    }
  });

/** Leaves in the outputs folder what must not be followed, and one honest file. */
const planted: Program = sh(
  `cd outputs
   echo good >good; ln -s /etc/passwd leaf; mkdir d && echo in >d/f; ln -s /etc component
   echo twice >first && ln first second; mkfifo fifo; mknod device c 1 3 2>/dev/null; true`,
  (p) => {
    p.files.write('outputs/good', 'good\n');
    p.files.symlink('/etc/passwd', 'outputs/leaf');
    p.files.mkdir('outputs/d');
    p.files.write('outputs/d/f', 'in\n');
    p.files.symlink('/etc', 'outputs/component');
    p.files.write('outputs/first', 'twice\n');
    p.files.hardlink('outputs/first', 'outputs/second');
    p.files.fifo('outputs/fifo');
  },
);

export const fileCases: readonly ContractCase[] = [
  ...['', '1000', 'user:staff', '65532'].map((user) =>
    contractCase(
      `file-user-${user === '' ? 'root' : user.replace(':', '-')}`,
      `user ${user} reads a file of mode 0400 that it was given`,
      async (context) => {
        const session = await context.session();
        for (const path of [
          '/cnab/bundle.json',
          '/cnab/app/porter.yaml',
          '/home/user/.kube/config',
          '/run/secrets/deep/er',
        ]) {
          const ran = await context.run(session, reads(path), {
            user,
            files: [given(path, 'content', { sensitive: true })],
          });
          expect([path, ran.stderr, ran.stdout]).toEqual([path, '', 'content']);
        }
      },
    ),
  ),
  contractCase('file-read-only', 'a read-only file cannot be changed, not even by root', async (context) => {
    const session = await context.session();
    const files = [given('/cnab/app/porter.yaml', 'original', { mode: 0o644 })];
    expect((await context.run(session, overwrite('porter.yaml'), { files })).exit.exitCode).toBe(9);
  }),
  contractCase(
    'file-writable',
    'a writable file is a private copy of the container’s user',
    async (context) => {
      const session = await context.session();
      for (const path of ['/etc/tool/config', '/cnab/app/config']) {
        for (const sensitive of [false, true]) {
          const files = [given(path, 'original', { mode: 0o600, readOnly: false, sensitive })];
          expect((await context.run(session, overwrite(path), { files, user: '1000' })).exit.exitCode).toBe(
            0,
          );
          expect((await context.run(session, reads(path), { files, user: '1000' })).stdout).toBe('original');
        }
      }
    },
  ),
  contractCase(
    'file-gone',
    'a given file leaves nothing in the workspace or in later containers',
    async (context) => {
      const session = await context.session();
      await context.run(session, reads('secret/key'), {
        files: [given('/cnab/app/secret/key', 'hush', { sensitive: true })],
      });
      const ran = await context.run(
        session,
        sh('cat secret/key; true', (p) =>
          p.stdout(p.files.exists('secret/key') ? p.files.read('secret/key') : ''),
        ),
      );
      expect(ran.stdout).toBe('');
      expect((await session.workspace.snapshot()).map((entry) => entry.path)).toEqual([]);
      expect(await context.files(session, ['secret'])).toEqual({});
    },
  ),
  contractCase('outputs-fresh', 'the outputs folder is empty for every container', async (context) => {
    const session = await context.session();
    const first = await context.run(
      session,
      sh('printf 1 >outputs/a', (p) => p.files.write('outputs/a', '1')),
      { user: '1000' },
    );
    const second = await context.run(
      session,
      sh('ls outputs; printf 2 >outputs/b', (p) => {
        p.stdout(p.files.list('outputs').join('\n'));
        p.files.write('outputs/b', '2');
      }),
    );
    expect(second.stdout).toBe('');
    expect((await context.collect(session, first)).map((file) => [file.path, String(file.content)])).toEqual([
      ['/cnab/app/outputs/a', '1'],
    ]);
    expect((await context.collect(session, second)).map((file) => [file.path, String(file.content)])).toEqual(
      [['/cnab/app/outputs/b', '2']],
    );
  }),
  contractCase('outputs-failed', 'what a failed container wrote can be collected', async (context) => {
    const session = await context.session();
    const ran = await context.run(
      session,
      sh('mkdir outputs/d; printf kept >outputs/d/x; exit 5', (p) => {
        p.files.mkdir('outputs/d');
        p.files.write('outputs/d/x', 'kept');
        return 5;
      }),
    );
    expect(ran.exit.exitCode).toBe(5);
    expect((await context.collect(session, ran)).map((file) => String(file.content))).toEqual(['kept']);
  }),
  contractCase('outputs-bytes', 'empty and binary outputs are exact', async (context) => {
    const session = await context.session();
    const ran = await context.run(
      session,
      sh("cd outputs; : >empty; printf '\\000\\377\\r\\n' >binary", (p) => {
        p.files.write('outputs/empty', '');
        p.files.write('outputs/binary', Uint8Array.of(0, 255, 13, 10));
      }),
    );
    const files = await context.collect(session, ran);
    expect(files.map((file) => [file.path, Buffer.from(file.content).toString('hex')]).sort()).toEqual([
      ['/cnab/app/outputs/binary', '00ff0d0a'],
      ['/cnab/app/outputs/empty', ''],
    ]);
  }),
  contractCase(
    'collect-elsewhere',
    'a path outside the workspace comes from the container',
    async (context) => {
      const session = await context.session();
      const path = '/home/user/.kube/config';
      const ran = await context.run(
        session,
        sh(`mkdir -p /home/user/.kube && printf made >${path}`, (p) => {
          p.files.mkdir('/home/user/.kube');
          p.files.write(path, 'made');
        }),
        { collectPaths: [path] },
      );
      expect(
        (await context.collect(session, ran, [path])).map((file) => [file.path, String(file.content)]),
      ).toEqual([[path, 'made']]);
    },
  ),
  contractCase(
    'collect-given',
    'a writable file that was given is collected as the container left it',
    async (context) => {
      const session = await context.session();
      for (const sensitive of [false, true]) {
        const path = '/etc/tool/state';
        const ran = await context.run(session, overwrite(path), {
          files: [given(path, 'before', { mode: 0o600, readOnly: false, sensitive })],
          collectPaths: [path],
        });
        expect((await context.collect(session, ran, [path])).map((file) => String(file.content))).toEqual([
          'changed\n',
        ]);
      }
    },
  ),
  contractCase('collect-absent', 'what is not there is left out', async (context) => {
    const session = await context.session();
    const ran = await context.run(session, exits(0), { collectPaths: ['/var/lib/none'] });
    expect(
      await context.collect(session, ran, ['/cnab/app/outputs', '/var/lib/none', '/cnab/app/none']),
    ).toEqual([]);
  }),
  contractCase(
    'collect-unsafe',
    'links, hard links, FIFOs and devices are left out, with a notice, and nothing hangs',
    async (context) => {
      const session = await context.session();
      const ran = await context.run(session, planted);
      const files = await context.collect(session, ran);
      expect(files.map((file) => [file.path, String(file.content)]).sort()).toEqual([
        ['/cnab/app/outputs/d/f', 'in\n'],
        ['/cnab/app/outputs/good', 'good\n'],
      ]);
      for (const name of ['leaf', 'component', 'fifo', 'second']) {
        expect(context.notices.filter((notice) => notice.includes(`outputs/${name}`))).not.toEqual([]);
      }
      const through = await context.collect(session, ran, [
        '/cnab/app/outputs/component/passwd',
        '/cnab/app/outputs/leaf',
        '/cnab/app/outputs/fifo',
      ]);
      expect(through).toEqual([]);
    },
  ),
  contractCase(
    'collect-workspace-link',
    'a link in the workspace is not followed either',
    async (context) => {
      const session = await context.session();
      const ran = await context.run(
        session,
        sh('ln -s /etc away; ln -s /etc/passwd pw', (p) => {
          p.files.symlink('/etc', 'away');
          p.files.symlink('/etc/passwd', 'pw');
        }),
      );
      expect(await context.collect(session, ran, ['/cnab/app/away/passwd', '/cnab/app/pw'])).toEqual([]);
    },
  ),
  contractCase('collect-sparse', 'a sparse file of a terabyte is refused by its size', async (context) => {
    const session = await context.session();
    const ran = await context.run(
      session,
      sh('truncate -s 1099511627776 outputs/sparse', (p) => p.files.sparse('outputs/sparse', 2 ** 40)),
    );
    expect(ran.stderr).toBe('');
    await expect(context.collect(session, ran)).rejects.toMatchObject({
      code: 'ENGINE_OUTPUT_TOO_LARGE',
      details: { sizeBytes: 2 ** 40 },
    });
  }),
  contractCase('collect-total', 'many files are limited together', async (context) => {
    const session = await context.session();
    const ran = await context.run(
      session,
      sh('for n in 1 2 3; do head -c 900000 /dev/zero >outputs/$n; done', (p) => {
        for (const n of [1, 2, 3]) p.files.write(`outputs/${n}`, new Uint8Array(900_000));
      }),
    );
    await expect(context.collect(session, ran)).rejects.toMatchObject({ code: 'ENGINE_OUTPUT_TOO_LARGE' });
  }),
  contractCase(
    'file-not-in-next',
    'what one container was given is not in the next of its image',
    async (context) => {
      const session = await context.session();
      const given = { content: Buffer.from('x'), mode: 0o444, sensitive: false, readOnly: true };
      const paths = ['/cnab/a/deep/file', '/cnab/a/other', '/cnab/always'];
      const looks = sh(`for f in ${paths.join(' ')} /cnab/a; do test -e $f && echo $f; done; true`, (p) =>
        p.stdout(
          [...paths, '/cnab/a']
            .filter((path) => p.files.exists(path))
            .map((path) => `${path}\n`)
            .join(''),
        ),
      );
      const ran = async (have: readonly string[]): Promise<string> => {
        const files = have.map((path) => ({ ...given, path }));
        const one = await context.run(session, looks, { files });
        await session.release(one.containerId, { keep: false });
        return one.stdout;
      };
      expect(await ran(paths)).toBe('/cnab/a/deep/file\n/cnab/a/other\n/cnab/always\n/cnab/a\n');
      expect(await ran(['/cnab/a/other'])).toBe('/cnab/a/other\n/cnab/a\n');
      expect(await ran([])).toBe('');
      expect(await ran(['/cnab/always'])).toBe('/cnab/always\n');
    },
  ),
];
