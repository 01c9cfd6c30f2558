import { expect } from 'vitest';
import { type ContractCase, contractCase } from '../case.ts';
import { sh } from '../programs.ts';

const who = sh('echo $(id -u) $(id -g)', (p) => p.stdout(`${p.uid} ${p.gid}\n`));

const known = (
  [
    ['root', '', '0 0'],
    ['numeric', '4242', '4242 0'],
    ['numeric-known', '1000', '1000 1000'],
    ['uid-gid', '1000:50', '1000 50'],
    ['name', 'user', '1000 1000'],
    ['name-group', 'user:staff', '1000 50'],
    ['uid-group', '7:staff', '7 50'],
  ] as const
).map(([id, user, ids]) =>
  contractCase(`user-${id}`, `user ${JSON.stringify(user)} is ${ids}`, async (context) => {
    expect((await context.run(await context.session(), who, { user })).stdout).toBe(`${ids}\n`);
  }),
);

export const userCases: readonly ContractCase[] = [
  ...known,
  ...(['nobody-here', 'user:no-group'] as const).map((user) =>
    contractCase(
      `user-unknown-${user.includes(':') ? 'group' : 'name'}`,
      `user ${user} is an error with a code`,
      async (context) => {
        const refused = context.run(await context.session(), who, { user });
        await expect(refused).rejects.toMatchObject({ code: 'ENGINE_USER_UNKNOWN', exitCode: 43 });
      },
    ),
  ),
  contractCase('user-scratch', 'an image without /etc/passwd runs as a numeric user', async (context) => {
    const ran = await context.run(
      await context.session(),
      { image: 'scratch', argv: ['/busybox', 'id', '-u'], fake: (p) => p.stdout(`${p.uid}\n`) },
      { user: '65532', workspace: 'none', workingDir: '/' },
    );
    expect(ran.stdout).toBe('65532\n');
  }),
];
