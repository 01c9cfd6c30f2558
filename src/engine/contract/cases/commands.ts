import { expect } from 'vitest';
import { type ContractCase, contractCase } from '../case.ts';
import { sh } from '../programs.ts';

const HOSTILE = [
  '',
  ' lead and trail ',
  `'"`,
  '$HOME $(id) `id`',
  'a\nb',
  '-rf',
  '*',
  '\\',
  'é😀',
  '%0A%250A',
  'a=b',
];
/** The kernel's limit for one string, its ending NUL and `NAME=` included. */
const LIMIT = 131_072;

export const commandCases: readonly ContractCase[] = [
  contractCase('argv-whole', 'arguments arrive as they are', async (context) => {
    const program = sh(
      'for a in "$@"; do printf "[%s]" "$a"; done',
      (p) =>
        p.stdout(
          p.argv
            .slice(4)
            .map((a) => `[${a}]`)
            .join(''),
        ),
      HOSTILE,
    );
    const ran = await context.run(await context.session(), program);
    expect(ran.stdout).toBe(HOSTILE.map((argument) => `[${argument}]`).join(''));
  }),
  contractCase('argv-path', 'a command without slash is looked up in PATH', async (context) => {
    const ran = await context.run(await context.session(), {
      image: 'shell',
      argv: ['echo', 'found'],
      fake: (p) => p.stdout('found\n'),
    });
    expect(ran.stdout).toBe('found\n');
  }),
  contractCase('no-shell', 'an image with one static program and nothing else works', async (context) => {
    const ran = await context.run(
      await context.session(),
      { image: 'scratch', argv: ['/busybox', 'echo', 'alone'], fake: (p) => p.stdout('alone\n') },
      { workspace: 'none', workingDir: '/' },
    );
    expect([ran.stdout, ran.exit.exitCode]).toEqual(['alone\n', 0]);
  }),
  contractCase(
    'no-shell-workspace',
    'such an image gets workspace, files and outputs too',
    async (context) => {
      const session = await context.session();
      const ran = await context.run(
        session,
        {
          image: 'scratch',
          argv: ['/busybox', 'cp', '/etc/given/name', '/cnab/app/outputs/name'],
          fake: (p) => p.files.write('/cnab/app/outputs/name', p.files.read('/etc/given/name')),
        },
        {
          files: [
            {
              path: '/etc/given/name',
              content: Buffer.from('value'),
              mode: 0o444,
              sensitive: false,
              readOnly: true,
            },
          ],
        },
      );
      expect(ran.stderr).toBe('');
      expect((await context.collect(session, ran)).map((file) => String(file.content))).toEqual(['value']);
    },
  ),
  contractCase('env-bytes', 'environment values are byte-identical', async (context) => {
    const env = Object.fromEntries(HOSTILE.map((value, at) => [`V${at}`, value]));
    const names = Object.keys(env);
    const program = sh(`for n in ${names.join(' ')}; do eval "printf '[%s]' \\"\\$$n\\""; done`, (p) =>
      p.stdout(names.map((name) => `[${p.env[name]}]`).join('')),
    );
    const ran = await context.run(await context.session(), program, { env: { PATH: '/bin', ...env } });
    expect(ran.stdout).toBe(HOSTILE.map((value) => `[${value}]`).join(''));
  }),
  contractCase('env-case', 'names that differ in case are two variables', async (context) => {
    const ran = await context.run(
      await context.session(),
      sh('printf %s-%s "$name" "$NAME"', (p) => p.stdout(`${p.env['name']}-${p.env['NAME']}`)),
      { env: { PATH: '/bin', name: 'small', NAME: 'large' } },
    );
    expect(ran.stdout).toBe('small-large');
  }),
  contractCase(
    'env-128k',
    'the longest value the kernel takes arrives; a longer one is refused before the start',
    async (context) => {
      const session = await context.session();
      const longest = 'x'.repeat(LIMIT - 'BIG='.length - 1);
      const program = sh('printf %s "${#BIG}"', (p) => p.stdout(String(p.env['BIG']?.length)));
      const ran = await context.run(session, program, { env: { PATH: '/bin', BIG: longest } });
      expect(ran.stdout).toBe(String(longest.length));
      const refused = context.run(session, program, { env: { PATH: '/bin', BIG: `${longest}x` } });
      await expect(refused).rejects.toMatchObject({ code: 'ENGINE_ENV_TOO_LONG' });
    },
  ),
  contractCase('id-twice', 'a container id is used once', async (context) => {
    const session = await context.session();
    const program = sh('exit 0', () => 0);
    const ran = await context.run(session, program);
    await expect(context.run(session, program, { containerId: ran.containerId })).rejects.toMatchObject({
      code: 'ENGINE_RUN_INVALID',
    });
  }),
  contractCase(
    'workdir-made',
    'a working directory that the image does not have is made',
    async (context) => {
      const ran = await context.run(
        await context.session(),
        sh('pwd', (p) => p.stdout(`${p.cwd}\n`)),
        { workingDir: '/made/for/this' },
      );
      expect(ran.stdout).toBe('/made/for/this\n');
    },
  ),
  contractCase('parallel', 'containers of one session run at the same time', async (context) => {
    const session = await context.session();
    const meet = (mine: string, theirs: string) =>
      sh(`touch ${mine}; while [ ! -e ${theirs} ]; do sleep 0.02; done; echo ${mine}`, async (p) => {
        p.files.write(mine, '');
        while (!p.files.exists(theirs)) await p.sleep(5);
        p.stdout(`${mine}\n`);
      });
    const both = await Promise.all([
      context.run(session, meet('a', 'b')),
      context.run(session, meet('b', 'a')),
    ]);
    expect(both.map((ran) => ran.stdout)).toEqual(['a\n', 'b\n']);
  }),
];
