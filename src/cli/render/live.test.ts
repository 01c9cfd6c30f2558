import { describe, expect, test } from 'vitest';
import type { Event } from '../../kernel/index.ts';
import type { Digest, OciEvent } from '../../oci/index.ts';
import { parseDigest } from '../../oci/names/index.ts';
import type { RunEvent } from '../../run/index.ts';
import type { Output } from '../types.ts';
import { liveProgress } from './progress.ts';

/** A terminal of the kind that the live view needs: text, line feed, carriage return, up, erase below. */
class Terminal implements Output {
  readonly isTerminal = true;
  readonly broken = new AbortController().signal;
  columns: number;
  rows: number;
  readonly #lines: string[] = [''];
  #row = 0;
  #column = 0;

  constructor(columns: number, rows: number) {
    this.columns = columns;
    this.rows = rows;
  }

  flush(): Promise<void> {
    return Promise.resolve();
  }

  write(chunk: string | Uint8Array): void {
    const text = String(chunk);
    for (const [token] of text.matchAll(/\u001b\[(\d*)([A-Za-z])|[\s\S]/gu)) {
      this.#obey(token);
    }
  }

  #obey(token: string): void {
    const control = /^\u001b\[(\d*)([A-Za-z])$/.exec(token);
    if (control !== null) {
      this.#control(control[2] as string, Number(control[1] || '1'));
    } else if (token === '\n') {
      this.#row++;
      this.#column = 0;
      this.#lines[this.#row] ??= '';
    } else if (token === '\r') {
      this.#column = 0;
    } else {
      if (this.#column >= this.columns) {
        this.#obey('\n');
      }
      const line = this.#lines[this.#row] ?? '';
      this.#lines[this.#row] = line.slice(0, this.#column) + token + line.slice(this.#column + 1);
      this.#column++;
    }
  }

  #control(letter: string, count: number): void {
    if (letter === 'A') {
      this.#row -= count;
      expect(this.#row, 'the view moved above what it drew').toBeGreaterThanOrEqual(0);
    } else if (letter === 'J') {
      this.#lines.length = this.#row + 1;
      this.#lines[this.#row] = (this.#lines[this.#row] ?? '').slice(0, this.#column);
    } else {
      expect(letter).toBe('m');
    }
  }

  /** As terminals do it: every line that is too long is wrapped, and the cursor stays at the end. */
  narrow(columns: number): void {
    const rows = this.#lines.flatMap((line) => line.match(new RegExp(`.{1,${columns}}`, 'gu')) ?? ['']);
    this.#lines.splice(0, this.#lines.length, ...rows);
    this.#row = rows.length - 1;
    this.columns = columns;
  }

  get screen(): string[] {
    return this.#lines
      .map((line) => line.trimEnd())
      .filter((line, index, all) => line !== '' || index < all.length - 1);
  }
}

function start(columns = 60, rows = 24) {
  const terminal = new Terminal(columns, rows);
  let now = 0;
  let tick = (): void => {};
  const progress = liveProgress({
    output: terminal,
    style: { color: false, width: columns },
    level: 'info',
    now: () => now,
    every(_milliseconds, callback) {
      tick = callback;
      return () => {
        tick = () => {};
      };
    },
  });
  return {
    terminal,
    event: (event: RunEvent | OciEvent | Event) => progress.event(event as Event),
    at(milliseconds: number) {
      now = milliseconds;
      tick();
    },
    progress,
  };
}

const started: RunEvent = {
  type: 'run.started',
  runId: 'R1',
  namespace: '',
  installation: 'my-app',
  action: 'install',
  bundle: 'shop',
  version: '1.0.0',
  engine: 'fake',
  steps: [
    { id: 'apply', description: 'Apply', image: 'tools' },
    { id: 'ship', description: 'Ship it', image: 'tools' },
  ],
};

describe('the live view', () => {
  test('shows steps, phases and elapsed time, with output above', () => {
    const view = start();
    view.event(started);
    view.event({ type: 'step.started', step: 'apply', description: 'Apply', image: 'tools', attempt: 1 });
    view.event({ type: 'step.running', step: 'apply', attempt: 1 });
    view.event({ type: 'step.output', step: 'apply', stream: 'stdout', text: 'creating\n' });
    view.at(3_200);

    expect(view.terminal.screen).toEqual([
      'apply | creating',
      'install my-app · shop 1.0.0 · fake                     3.2s',
      '● apply  Apply  running                                3.2s',
      '    creating',
      '· ship  Ship it',
    ]);
  });

  test('ends with what became of each step', () => {
    const view = start();
    view.event(started);
    view.event({ type: 'step.started', step: 'apply', description: 'Apply', image: 'tools', attempt: 1 });
    view.event({ type: 'step.finished', step: 'apply', state: 'succeeded', exitCode: 0, durationMs: 1_000 });
    view.event({ type: 'step.started', step: 'ship', description: 'Ship it', image: 'tools', attempt: 2 });
    view.event({ type: 'step.finished', step: 'ship', state: 'failed', exitCode: 1, durationMs: 500 });
    view.event({ type: 'run.finished', runId: 'R1', state: 'failed', durationMs: 1_600 });
    view.progress.close();

    expect(view.terminal.screen).toEqual([
      'install my-app · shop 1.0.0 · fake · failed            1.6s',
      '✓ apply  Apply                                         1.0s',
      '✗ ship  Ship it  failed (attempt 2)                   500ms',
    ]);
  });

  test('shows a bar for each blob of a copy on its way', () => {
    const view = start();
    const digest = (letter: string): Digest => parseDigest(`sha256:${letter.repeat(64)}`);
    const [source, target] = ['store:localhost/a:1', 'oci:out'];
    view.event({ type: 'image.copying', source, target, manifests: 1, blobs: 3, sizeBytes: 300 });
    view.event({ type: 'blob.progress', digest: digest('a'), doneBytes: 50, sizeBytes: 100 });
    view.event({ type: 'blob.progress', digest: digest('b'), doneBytes: 10, sizeBytes: 100 });
    view.event({ type: 'blob.copied', digest: digest('c'), sizeBytes: 100, how: 'mounted' });
    view.at(100);

    expect(view.terminal.screen).toEqual([
      '↦ oci:out                                      1 of 3 blobs',
      '  sha256:aaaaaaaaaaaa ██████████░░░░░░░░░░  50%  50 B of 1…',
      '  sha256:bbbbbbbbbbbb ██░░░░░░░░░░░░░░░░░░  10%  10 B of 1…',
    ]);
    view.event({ type: 'blob.copied', digest: digest('a'), sizeBytes: 100, how: 'copied' });
    view.event({ type: 'blob.copied', digest: digest('b'), sizeBytes: 100, how: 'copied' });
    view.event({ type: 'image.copied', source, target, digest: digest('d') });
    expect(view.terminal.screen).toEqual([]);
  });

  test('shows how far a pull is, drawn by the clock', () => {
    const view = start();
    view.event({
      type: 'image.pulling',
      reference: 'ghcr.io/acme/tools:1',
      layers: 2,
      sizeBytes: 200_000_000,
    });
    view.event({
      type: 'blob.progress',
      digest: 'sha256:aa',
      doneBytes: 50_000_000,
      sizeBytes: 200_000_000,
    } as Event);
    view.at(100);

    expect(view.terminal.screen).toEqual(['↓ ghcr.io/acme/tools:1  50 MB of 200 MB 25%']);

    view.event({ type: 'image.pulled', reference: 'ghcr.io/acme/tools:1', digest: 'sha256:aa' } as Event);
    expect(view.terminal.screen).toEqual([]);
  });

  test('never draws more lines than the screen has, and says what it left out', () => {
    const view = start(60, 10);
    const steps = Array.from({ length: 30 }, (_, index) => ({
      id: `s${index}`,
      description: `Step ${index}`,
      image: 'tools',
    }));
    view.event({ ...started, steps });
    view.event({ type: 'step.started', step: 's15', description: 'Step 15', image: 'tools', attempt: 1 });

    expect(view.terminal.screen.length).toBeLessThan(10);
    expect(view.terminal.screen.join('\n')).toContain('s15');
    expect(view.terminal.screen.join('\n')).toMatch(/… \d+ before/);
    expect(view.terminal.screen.join('\n')).toMatch(/… \d+ after/);
  });

  test('survives a terminal that becomes narrower and wraps what was drawn', () => {
    const view = start(80);
    view.event(started);
    view.terminal.narrow(30);
    view.at(1_000);

    expect(view.terminal.screen).toEqual([
      'install my-app · shop 1… 1.0s',
      '· apply  Apply',
      '· ship  Ship it',
    ]);
  });

  test('goes away while something else has the terminal', () => {
    const view = start();
    view.event(started);
    view.progress.pause();
    view.terminal.write('result\n');
    expect(view.terminal.screen).toEqual(['result']);
  });

  test('says what a cancellation waits for', () => {
    const view = start();
    view.event(started);
    view.event({ type: 'cancel.requested', message: 'cancelling: waiting for step apply' } as Event);
    expect(view.terminal.screen.at(-1)).toBe('cancelling: waiting for step apply');
  });

  test('a hostile step cannot move the cursor', () => {
    const view = start();
    view.event(started);
    view.event({
      type: 'step.started',
      step: 'apply',
      description: 'x\u001b[9A\u001b[J',
      image: 'tools',
      attempt: 1,
    });
    view.event({ type: 'step.running', step: 'apply', attempt: 1 });
    view.event({ type: 'step.output', step: 'apply', stream: 'stdout', text: '\u001b[5A\u001b[J\rgone\n' });
    expect(view.terminal.screen[0]).toBe('apply | gone');
    expect(view.terminal.screen).toHaveLength(5);
  });
});
