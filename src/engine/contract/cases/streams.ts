import { expect } from 'vitest';
import { type ContractCase, contractCase } from '../case.ts';
import { sh } from '../programs.ts';

const TEN_MIB = 10 << 20;

export const streamCases: readonly ContractCase[] = [
  contractCase('stream-separate', 'stdout and stderr arrive separately', async (context) => {
    const ran = await context.run(
      await context.session(),
      sh('echo out; echo err >&2', (p) => {
        p.stdout('out\n');
        p.stderr('err\n');
      }),
    );
    expect([ran.stdout, ran.stderr]).toEqual(['out\n', 'err\n']);
  }),
  contractCase(
    'stream-no-newline',
    'the last bytes of a container that ends at once are there',
    async (context) => {
      const session = await context.session();
      for (let round = 0; round < 5; round += 1) {
        const ran = await context.run(
          session,
          sh('printf last', (p) => p.stdout('last')),
        );
        expect(ran.stdout).toBe('last');
      }
    },
  ),
  contractCase('stream-one-line', 'one line of 10 MiB arrives whole', async (context) => {
    const ran = await context.run(
      await context.session(),
      sh(`head -c ${TEN_MIB} /dev/zero | tr '\\0' x`, (p) => p.stdout('x'.repeat(TEN_MIB))),
    );
    expect(ran.stdout.length).toBe(TEN_MIB);
    expect(/^x*$/.test(ran.stdout)).toBe(true);
  }),
  contractCase(
    'stream-emoji',
    'a character split by the other stream stays whole in its own',
    async (context) => {
      const ran = await context.run(
        await context.session(),
        sh("printf '\\360\\237'; printf e >&2; printf '\\230\\200'", (p) => {
          p.stdout(Uint8Array.of(0xf0, 0x9f));
          p.stderr('e');
          p.stdout(Uint8Array.of(0x98, 0x80));
        }),
      );
      expect([ran.stdout, ran.stderr]).toEqual(['😀', 'e']);
    },
  ),
  contractCase(
    'stream-alternating',
    'a thousand alternating lines are in order in each stream',
    async (context) => {
      const ran = await context.run(
        await context.session(),
        sh('i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done', (p) => {
          for (let at = 0; at < 500; at += 1) {
            p.stdout(`o${at}\n`);
            p.stderr(`e${at}\n`);
          }
        }),
      );
      const numbers = Array.from({ length: 500 }, (_, at) => at);
      expect(ran.stdout).toBe(numbers.map((at) => `o${at}\n`).join(''));
      expect(ran.stderr).toBe(numbers.map((at) => `e${at}\n`).join(''));
    },
  ),
  contractCase('stream-binary', 'bytes are not changed: NUL, CR, 0xff', async (context) => {
    const ran = await context.run(
      await context.session(),
      sh("printf '\\000\\r\\n\\377\\033'", (p) => p.stdout(Uint8Array.of(0, 13, 10, 255, 27))),
    );
    expect(Buffer.concat(ran.chunks.map((one) => one.chunk)).toString('hex')).toBe('000d0aff1b');
  }),
  contractCase('stream-live', 'output arrives while the container runs', async (context) => {
    const session = await context.session();
    const running = context.start(
      session,
      sh('echo first; while [ ! -e go ]; do sleep 0.02; done; echo second', async (p) => {
        p.stdout('first\n');
        while (!p.files.exists('go')) await p.sleep(5);
        p.stdout('second\n');
      }),
    );
    await running.said('first\n');
    await context.run(
      session,
      sh('touch go', (p) => p.files.write('go', '')),
    );
    expect((await running.result).stdout).toBe('first\nsecond\n');
  }),
  contractCase('stream-sensitive', 'a sensitive container’s output is the same', async (context) => {
    const ran = await context.run(
      await context.session(),
      sh('echo out; echo err >&2; exit 4', (p) => {
        p.stdout('out\n');
        p.stderr('err\n');
        return 4;
      }),
      { sensitive: true },
    );
    expect([ran.stdout, ran.stderr, ran.exit.exitCode]).toEqual(['out\n', 'err\n', 4]);
  }),
  contractCase(
    'stream-background',
    'a background child that keeps stdout open does not hold the step',
    async (context) => {
      const before = Date.now();
      const ran = await context.run(
        await context.session(),
        sh('sleep 301 & echo done; exit 7', (p) => {
          p.stdout('done\n');
          return 7;
        }),
      );
      expect([ran.stdout, ran.exit.exitCode]).toEqual(['done\n', 7]);
      expect(Date.now() - before).toBeLessThan(60_000);
    },
  ),
  contractCase(
    'stream-closed',
    'a container that closes its streams and works on is waited for',
    async (context) => {
      const session = await context.session();
      const ran = await context.run(
        session,
        sh('exec >&- 2>&-; sleep 0.5; echo done >late; exit 9', async (p) => {
          await p.sleep(50);
          p.files.write('late', 'done\n');
          return 9;
        }),
      );
      expect(ran.exit.exitCode).toBe(9);
      expect(await context.files(session, ['late'])).toEqual({ late: 'done\n' });
    },
  ),
  contractCase('stdin-empty', 'standard input is empty', async (context) => {
    expect(
      (
        await context.run(
          await context.session(),
          sh('cat; echo end', (p) => p.stdout('end\n')),
        )
      ).stdout,
    ).toBe('end\n');
  }),
];
