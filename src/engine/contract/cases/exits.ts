import { expect } from 'vitest';
import { type ContractCase, contractCase } from '../case.ts';
import { exits, sh } from '../programs.ts';

const plain = [0, 1, 2, 126, 127, 137, 143, 255].map((code) =>
  contractCase(
    `exit-${code}`,
    `a container that exits with ${code} is a result with that code`,
    async (context) => {
      const ran = await context.run(await context.session(), exits(code));
      expect(ran.exit).toMatchObject({ exitCode: code, cause: 'exited' });
      expect(ran.started).toBe(1);
      expect(Date.parse(ran.exit.finishedAt)).toBeGreaterThanOrEqual(Date.parse(ran.exit.startedAt));
    },
  ),
);

export const exitCases: readonly ContractCase[] = [
  ...plain,
  contractCase('exit-300', 'exit codes are taken modulo 256', async (context) => {
    expect((await context.run(await context.session(), exits(300))).exit.exitCode).toBe(44);
  }),
  contractCase('kill-self', 'a command that kills itself with 9 fails with 137', async (context) => {
    const ran = await context.run(
      await context.session(),
      sh('kill -9 $$; exit 0', () => 137),
    );
    expect(ran.exit.exitCode).toBe(137);
  }),
  contractCase('term-self', 'a command that ends itself with TERM fails with 143', async (context) => {
    const ran = await context.run(
      await context.session(),
      sh('kill -TERM $$; sleep 5; exit 0', () => 143),
    );
    expect(ran.exit.exitCode).toBe(143);
  }),
  contractCase('not-found', 'a command that is not there ends with 127', async (context) => {
    const session = await context.session();
    for (const argv of [['/no/such/program'], ['no-such-program', 'x']]) {
      const ran = await context.run(session, exits(0), { argv });
      expect(ran.exit).toMatchObject({ exitCode: 127, cause: 'not-found' });
      expect(ran.exit.message).not.toBe('');
    }
  }),
  contractCase(
    'not-executable',
    'a command that is a folder or plain text ends with 126',
    async (context) => {
      const session = await context.session();
      for (const path of ['/etc', '/cnab/app/shipped/hello']) {
        const ran = await context.run(session, exits(0), { argv: [path], workspace: 'none' });
        expect(ran.exit).toMatchObject({ exitCode: 126, cause: 'not-executable' });
      }
    },
  ),
  contractCase(
    'still-exits',
    'the session goes on after containers that could not be executed',
    async (context) => {
      const session = await context.session();
      await context.run(session, exits(0), { argv: ['/no/such/program'] });
      expect((await context.run(session, exits(3))).exit.exitCode).toBe(3);
    },
  ),
];
