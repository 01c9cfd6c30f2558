import type { FakeImage, FakeProgram } from '../../src/engine/fake/index.ts';

/** A bundle whose events are recorded: what real engines run, and what the fake one does for it. */
export interface Recorded {
  readonly name: string;
  /** Of porter.yaml, after its head. */
  readonly text: string;
  readonly exitCode: number;
  /** By the text of the script. */
  readonly programs: Readonly<Record<string, FakeProgram>>;
}

const step = (id: string, script: string, more = '', invoke = ''): string =>
  `  - id: ${id}\n    description: ${id}\n${more}    invoke: {name: tools, ${invoke}action: {command: [sh, -c, '${script}']}}\n`;

export const recorded: readonly Recorded[] = [
  {
    name: 'outputs',
    exitCode: 0,
    text: `outputs:
  - {name: url, type: string}
  - {name: key, type: string, sensitive: true}
install:
${step('makes', 'echo making; printf shop.example > outputs/url; printf s3cret-key > outputs/key')}${step('leaks', 'echo the key is s3cret-key; echo unfinished >&2')}`,
    programs: {
      'echo making; printf shop.example > outputs/url; printf s3cret-key > outputs/key': (p) => {
        p.stdout('making\n');
        p.files.write('/cnab/app/outputs/url', 'shop.example');
        p.files.write('/cnab/app/outputs/key', 's3cret-key');
      },
      'echo the key is s3cret-key; echo unfinished >&2': (p) => {
        p.stdout('the key is s3cret-key\n');
        p.stderr('unfinished\n');
      },
    },
  },
  {
    name: 'failure',
    exitCode: 50,
    text: `parameters:
  - {name: wanted, type: boolean, default: false}
install:
${step('first', 'exit 0')}${step('skipped', 'exit 9', '    when: "${ bundle.parameters.wanted }"\n')}${step('forgiven', 'exit 3', '', 'ignoreError: {exitCodes: [3]}, ')}${step('fails', 'echo broken >&2; exit 4')}${step('never', 'exit 9')}${step('clean', 'echo cleaning', '    always: true\n')}`,
    programs: {
      'exit 0': () => 0,
      'exit 9': () => 9,
      'exit 3': () => 3,
      'echo broken >&2; exit 4': (p) => {
        p.stderr('broken\n');
        return 4;
      },
      'echo cleaning': (p) => p.stdout('cleaning\n'),
    },
  },
  {
    name: 'retry',
    exitCode: 0,
    text: `install:
${step('again', 'test -e seen || { touch seen; exit 7; }', '    retry: {attempts: 3, delay: 10ms}\n')}${step('missing', 'no-such-command', '', 'ignoreError: {all: true}, ')}`,
    programs: {
      'test -e seen || { touch seen; exit 7; }': (p) => {
        if (p.files.exists('/cnab/app/seen')) return 0;
        p.files.write('/cnab/app/seen', '');
        return 7;
      },
      'no-such-command': (p) => {
        p.stderr('sh: no-such-command: not found\n');
        return 127;
      },
    },
  },
  {
    name: 'matrix',
    exitCode: 0,
    text: `install:
${step('each', 'echo in $REGION', '    matrix: {region: [eu, us]}\n    needs: []\n', 'env: {REGION: "${ matrix.region }"}, ')}${step('after', 'echo after', '    needs: [each]\n')}`,
    programs: {
      'echo in $REGION': (p) => p.stdout(`in ${p.env.REGION}\n`),
      'echo after': (p) => p.stdout('after\n'),
    },
  },
];

export function fakeImage({ programs }: Recorded): FakeImage {
  return {
    run: (process) => {
      const script = process.argv.at(-1) ?? '';
      const program = programs[script];
      if (program === undefined) throw new Error(`nobody said what the fake does for: ${script}`);
      return program(process);
    },
  };
}

/**
 * A run's events without what differs from run to run: ids, times, the engine's name and preparations. Steps that run
 * side by side interleave, so events stand step by step, in the order in which steps began.
 */
export function normalized(events: readonly object[]): string {
  const kept = (events as readonly Readonly<Record<string, unknown>>[]).filter(
    ({ type }) => /^(?:run|step|output)\./.test(String(type)) && type !== 'step.running',
  );
  const of = (event: Readonly<Record<string, unknown>>): string => String(event.step ?? event.type);
  const order = [...new Set(kept.map(of))];
  // Each stream is in order; how the two interleave is not promised. Between two other events they stand one by one.
  let others = 0;
  const place = (event: Readonly<Record<string, unknown>>): number => {
    if (event.type === 'step.output') return others + (event.stream === 'stdout' ? 0.3 : 0.6);
    others += 1;
    return others;
  };
  return order
    .flatMap((group) =>
      kept.filter((event) => of(event) === group).map((event) => ({ event, at: place(event) })),
    )
    .toSorted((a, b) => a.at - b.at)
    .map(({ event }) => {
      const { runId: _, durationMs: __, time: ___, at: ____, engine: _____, ...rest } = event;
      const sorted = Object.fromEntries(Object.entries(rest).toSorted(([a], [b]) => (a < b ? -1 : 1)));
      // Wherever the image comes from.
      return `${JSON.stringify(sorted).replace(/"image":"[^"]*\//g, '"image":"')}\n`;
    })
    .join('');
}
