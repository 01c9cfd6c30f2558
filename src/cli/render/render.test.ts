import { describe, expect, test } from 'vitest';
import { fakeOutput } from '../../../test/support/fake-host.ts';
import { loadDocument, toJson } from '../../document/index.ts';
import { type Event, kernelError } from '../../kernel/index.ts';
import type { RunEvent } from '../../run/index.ts';
import { errorJson, renderError, reportOf } from './error.ts';
import { eventLines } from './event-text.ts';
import { LineBuffer } from './lines.ts';
import { jsonProgress, plainProgress } from './progress.ts';
import { styleOf } from './style.ts';
import { table } from './table.ts';
import { formatAge, formatBytes, formatDuration } from './units.ts';
import { displayWidth, truncate } from './width.ts';
import { toYaml } from './yaml.ts';

const plain = { color: false };

function lines(...events: (RunEvent | Event)[]): string[] {
  const buffer = new LineBuffer();
  return events.flatMap((event) => eventLines(event, buffer, plain)).map((line) => line.text);
}

describe('events as lines', () => {
  test('of images: one is one, and a digest is not told to be itself', () => {
    const digest = `sha256:${'a'.repeat(64)}`;
    const at = `ghcr.io/acme/tools@${digest}`;
    expect(
      lines(
        { type: 'image.pulling', reference: at, layers: 1, sizeBytes: 2_000 } as Event,
        { type: 'image.copying', source: 'a', target: 'b', manifests: 1, blobs: 2, sizeBytes: 3 } as Event,
      ),
    ).toEqual([`image ${at}: pulling 1 layer, 2.0 kB`, 'copying a to b: 1 manifest, 2 blobs, 3 B']);
    const told = (reference: string): unknown =>
      eventLines({ type: 'image.resolved', reference, digest } as Event, new LineBuffer(), plain).map(
        ({ level }) => level,
      );
    expect(told('ghcr.io/acme/tools:1')).toEqual(['info']);
    expect(told(at)).toEqual(['debug']);
  });

  const run: RunEvent[] = [
    {
      type: 'run.started',
      runId: 'R1',
      namespace: 'dev',
      installation: 'my-app',
      action: 'install',
      bundle: 'shop',
      version: '1.0.0',
      engine: 'fake',
      steps: [{ id: 'apply', description: 'Apply', image: 'tools' }],
    },
    { type: 'step.started', step: 'apply', description: 'Apply', image: 'tools', attempt: 1 },
    { type: 'step.running', step: 'apply', attempt: 1 },
    { type: 'step.output', step: 'apply', stream: 'stdout', text: 'one\ntw' },
    { type: 'step.output', step: 'apply', stream: 'stderr', text: 'oops\n' },
    { type: 'step.output', step: 'apply', stream: 'stdout', text: 'o' },
    { type: 'step.retrying', step: 'apply', attempt: 1, exitCode: 75, delayMs: 5_000 },
    { type: 'step.started', step: 'apply', description: 'Apply', image: 'tools', attempt: 2 },
    { type: 'step.finished', step: 'apply', state: 'failed', exitCode: 3, durationMs: 1_250 },
    { type: 'step.kept', step: 'apply', containerId: 'c1', shell: ['docker', 'exec', '-it', 'c 1', 'sh'] },
    { type: 'step.skipped', step: 'late', reason: 'when is false' },
    { type: 'output.collected', name: 'url', sensitive: false, value: 'https://x' },
    { type: 'output.collected', name: 'token', sensitive: true },
    { type: 'warning', code: 'short-secret', message: 'pin is not masked' },
    { type: 'run.finished', runId: 'R1', state: 'failed', durationMs: 61_000, message: 'step apply failed' },
  ];

  test('of a whole run', () => {
    expect(lines(...run)).toEqual([
      'install my-app in namespace dev: shop 1.0.0, 1 step on fake, run R1',
      'step apply: started: Apply (tools)',
      'step apply: running',
      'apply | one',
      'apply | oops',
      'apply | two',
      'step apply: exit code 75, tried again in 5.0s',
      'step apply: started: Apply (tools), attempt 2',
      'step apply: failed with exit code 3 in 1.2s',
      "step apply: container kept, shell: docker exec -it 'c 1' sh",
      'step late: skipped: when is false',
      'output url = https://x',
      'output token (sensitive)',
      'warning: [short-secret] pin is not masked',
      'run R1: failed in 1m01s: step apply failed',
    ]);
  });

  test('of a type that is not known: by its fields', () => {
    expect(lines({ type: 'new.thing', count: 3, what: 'a\u001b[2J' } as Event)).toEqual([
      'new.thing count=3 what=a\\x1b[2J',
    ]);
  });

  test('what a registry makes us do again is one line that can be read', () => {
    const retry = { type: 'registry.retry', registry: 'ghcr.io' };
    expect(
      lines(
        { ...retry, reason: 'status 429', delayMs: 7000 } as Event,
        { ...retry, reason: 'reset', delayMs: 190 } as Event,
        { ...retry, reason: 'status 503', delayMs: 61_000 } as Event,
        { ...retry, registry: 'a\u001b[2J', reason: 'x\ny', delayMs: 1 } as Event,
        { type: 'blob.retry', digest: `sha256:${'a'.repeat(64)}`, reason: 'timeout', offset: 1024 } as Event,
        { type: 'registry.warning', registry: 'ghcr.io', message: '"moves soon"' } as Event,
      ),
    ).toEqual([
      'registry ghcr.io: too many requests (status 429), tried again in 7.0s',
      'registry ghcr.io: the connection broke, tried again in 190ms',
      'registry ghcr.io: status 503, tried again in 1m01s',
      'registry a\\x1b[2J: x\\ny, tried again in 1ms',
      'blob sha256:aaaaaaaaaaaa: too slow, resumed at 1.0 kB',
      'warning: registry ghcr.io: "moves soon"',
    ]);
  });

  test('a progress bar shows what it showed last', () => {
    expect(
      lines({ type: 'step.output', step: 's', stream: 'stdout', text: '10%\r50%\r100%\r\n' } as RunEvent),
    ).toEqual(['s | 100%']);
  });

  test('levels: errors stay when all else is off', () => {
    const output = fakeOutput();
    const progress = plainProgress({
      output,
      style: { color: false, width: 0 },
      level: 'error',
      now: () => 0,
      every: () => () => {},
    });
    for (const event of run) {
      progress.event(event);
    }
    expect(output.text.split('\n').filter((line) => line !== '')).toEqual([
      'step apply: failed with exit code 3 in 1.2s',
      'run R1: failed in 1m01s: step apply failed',
    ]);
  });

  test('as JSON: one event a line, with its time', () => {
    const output = fakeOutput();
    const progress = jsonProgress({
      output,
      style: { color: false, width: 0 },
      level: 'info',
      now: () => 0,
      every: () => () => {},
    });
    for (const event of run) {
      progress.event(event);
    }
    const parsed = output.text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(parsed).toEqual(run.map((event) => ({ time: '1970-01-01T00:00:00.000Z', ...event })));
  });
});

describe('text of others', () => {
  const hostile = 'a\u001b]0;title\u0007\u001b[2J\u009b31m\u202eevil\u0000b';

  test('cannot drive the terminal, wherever it stands in an event', () => {
    const events: RunEvent[] = [
      {
        type: 'run.started',
        runId: 'R',
        namespace: hostile,
        installation: hostile,
        action: hostile,
        bundle: hostile,
        version: hostile,
        engine: 'e',
        steps: [],
      },
      { type: 'step.started', step: hostile, description: hostile, image: hostile, attempt: 1 },
      { type: 'step.output', step: hostile, stream: 'stdout', text: `${hostile}\n` },
      { type: 'step.skipped', step: hostile, reason: hostile },
      { type: 'step.finished', step: hostile, state: 'errored', durationMs: 1, message: hostile },
      { type: 'step.kept', step: hostile, containerId: 'c', shell: [hostile] },
      { type: 'output.collected', name: hostile, sensitive: false, value: { a: hostile } },
      { type: 'notice', code: 'c', message: hostile },
      { type: 'warning', code: hostile, message: hostile },
      { type: 'run.finished', runId: 'R', state: 'failed', durationMs: 1, message: hostile },
      { type: 'engine.notice', message: hostile },
      { type: 'engine.image', image: hostile, phase: 'ready' },
    ];
    for (const line of lines(...events)) {
      expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
      expect(line).toContain('evil');
    }
  });

  test.each(['::set-output name=x::y', '##vso[task.setvariable]x', '##[error]x', '##teamcity[buildStop]'])(
    'cannot command the CI: %s',
    (text) => {
      const buffer = new LineBuffer();
      const [line] = eventLines(
        { type: 'step.output', step: 's', stream: 'stdout', text: `${text}\n` } as RunEvent,
        buffer,
        { color: false, ci: 'github' },
      );
      expect(line?.text).not.toMatch(/^\s*::|##\[|##vso\[|##teamcity\[/);
    },
  );

  test('tables stay on their lines', () => {
    expect(table(['A', 'B'], [['x\ny', hostile]])).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    expect(table(['A', 'B'], [['x\ny', 'z']]).split('\n')).toHaveLength(3);
  });
});

describe('errors', () => {
  const error = kernelError('USAGE', 'unknown key "imgae"', {
    hint: 'did you mean image?',
    place: { file: 'porter.yaml', line: 7, column: 5, excerpt: '    imgae: x\n    ^' },
    details: { key: 'imgae' },
    cause: new Error('deeper', { cause: new Error('deepest') }),
  });

  test('name code, message, place with caret, causes and hint', () => {
    expect(renderError(reportOf(error, false), plain)).toBe(
      [
        'error [USAGE] unknown key "imgae"',
        '  at porter.yaml:7:5',
        '      imgae: x',
        '      ^',
        '  because deeper',
        '  because deepest',
        '  hint: did you mean image?',
        '',
      ].join('\n'),
    );
  });

  test('without the advice that Node gives to who starts Node', () => {
    const cause = new Error(
      'self-signed certificate; if the root CA is installed locally, try running Node.js with --use-system-ca',
    );
    expect(reportOf(new Error('TLS failed', { cause }), false).causes).toEqual(['self-signed certificate']);
  });

  test('as JSON have the same facts', () => {
    expect(errorJson(reportOf(error, false))).toEqual({
      error: {
        code: 'USAGE',
        exitCode: 2,
        message: 'unknown key "imgae"',
        hint: 'did you mean image?',
        place: { file: 'porter.yaml', line: 7, column: 5, excerpt: '    imgae: x\n    ^' },
        details: { key: 'imgae' },
        causes: ['deeper', 'deepest'],
      },
    });
  });

  test('that nobody expected are our fault, and their stack is told on request only', () => {
    const report = reportOf(new TypeError('x is not a function'), false);
    expect(report).toMatchObject({ code: 'INTERNAL', exitCode: 1 });
    expect(renderError(report, plain)).not.toContain('    at ');
    expect(renderError(reportOf(new TypeError('x'), true), plain)).toContain('    at ');
  });

  test('of the system are known where Node says them in words only', () => {
    const error = Object.assign(new Error(", Unknown error: Too many open files '/run/x'"), { code: '' });
    expect(reportOf(error, false)).toMatchObject({
      code: 'FILE_UNREADABLE',
      hint: expect.stringContaining('ulimit -n'),
    });
  });

  test.each([
    ['ENOSPC', 'DISK_FULL', 62],
    ['EACCES', 'FILE_UNREADABLE', 2],
  ])('of the system: %s is %s', (code, ours, exitCode) => {
    expect(reportOf(Object.assign(new Error('x'), { code }), false)).toMatchObject({ code: ours, exitCode });
  });

  test('cannot drive the terminal', () => {
    const hostile = kernelError('USAGE', 'a\u001b[2J', {
      hint: 'b\u001b[2J',
      place: { file: 'c\u001b[2J', line: 1, excerpt: 'd\u001b[2J' },
    });
    expect(renderError(reportOf(hostile, false), plain)).not.toContain('\u001b');
  });
});

describe('YAML', () => {
  test.each([
    [{ a: 1, b: 'x', c: [1, 'two', { d: null }], e: {}, f: [], g: true }],
    [
      [
        '007',
        '1e3',
        'yes',
        'null',
        '~',
        '',
        ' x',
        'a: b',
        'x #y',
        '- z',
        'line\nline',
        "it's",
        '"q"',
        '0x1f',
        '2026-01-02',
        '.5',
        'on',
        '=',
        '<<',
        '\u0085',
        '\u2028',
        'é',
      ],
    ],
    [{ 'a b': { 'c: d': [[1, 2], [{ x: 'y' }]] }, '': 'empty key', '007': 'x' }],
    ['text'],
    [null],
    [[]],
  ])('is read back as it was: %j', async (data) => {
    const { parseYaml } = await loadDocument();
    const { root, problems } = parseYaml(toYaml(data), { file: 'x' });
    expect(problems).toEqual([]);
    expect(root === undefined ? undefined : toJson(root)).toEqual(data);
  });

  test('reads well', () => {
    expect(toYaml({ name: 'my-app', labels: { env: 'prod' }, steps: [{ id: 'apply', exitCode: 0 }] })).toBe(
      'name: my-app\nlabels:\n  env: prod\nsteps:\n  - id: apply\n    exitCode: 0\n',
    );
  });
});

describe('style', () => {
  test.each([
    [true, {}, true],
    [false, {}, false],
    [true, { NO_COLOR: '1' }, false],
    [true, { NO_COLOR: '' }, true],
    [false, { FORCE_COLOR: '1' }, true],
    [true, { FORCE_COLOR: '0' }, false],
    [false, { NO_COLOR: '1', FORCE_COLOR: '1' }, false],
    [true, { TERM: 'dumb' }, false],
  ])('terminal %s with %j: color %s', (terminal, env, color) => {
    expect(styleOf(fakeOutput({ terminal }), env).color).toBe(color);
  });
});

describe('units', () => {
  test.each([
    [-5_000, '0ms'],
    [0, '0ms'],
    [999, '999ms'],
    [1_250, '1.2s'],
    [59_999, '59.9s'],
    [65_000, '1m05s'],
    [7_380_000, '2h03m'],
  ])('%d ms', (value, text) => {
    expect(formatDuration(value)).toBe(text);
  });

  test.each([
    [0, '0 B'],
    [999, '999 B'],
    [1_000, '1.0 kB'],
    [999_949, '1.0 MB'],
    [180_000_000, '180 MB'],
    [1_234_567_890, '1.2 GB'],
  ])('%d bytes', (value, text) => {
    expect(formatBytes(value)).toBe(text);
  });

  test('age', () => {
    expect(formatAge('2026-01-01T00:00:00Z', Date.UTC(2026, 0, 1, 3))).toBe('3h');
    expect(formatAge('2026-01-01T00:00:00Z', Date.UTC(2025, 0, 1))).toBe('0s');
  });

  test.each([
    ['abc', 3],
    ['日本', 4],
    ['e\u0301', 1],
    ['👩‍🚀', 2],
    ['✓', 1],
  ])('width of %s', (text, width) => {
    expect(displayWidth(text)).toBe(width);
  });

  test('cutting never exceeds the width', () => {
    for (let width = 0; width < 12; width++) {
      expect(displayWidth(truncate('日本語のテキスト', width))).toBeLessThanOrEqual(width);
    }
  });
});
