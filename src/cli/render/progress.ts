import type { Event } from '../../kernel/index.ts';
import type { Output, Style } from '../types.ts';
import { type EventLine, eventLines, type Level, levels } from './event-text.ts';
import { LineBuffer } from './lines.ts';
import { drawLive } from './live-draw.ts';
import { emptyLiveState, type LiveState, reduceLive } from './live-state.ts';
import { displayWidth } from './width.ts';

/** Shows events on stderr until closed. */
export interface Progress {
  event(event: Event): void;
  /** Something else is about to be written to the terminal: take the region away; the next event draws it again. */
  pause(): void;
  close(): void;
}

export interface ProgressOptions {
  readonly output: Output;
  readonly style: Style;
  readonly level: Level;
  now(): number;
  /** Calls back again and again until the returned function is called; the live view's clock. */
  every(milliseconds: number, tick: () => void): () => void;
}

function isShown(line: EventLine, level: Level): boolean {
  return levels.indexOf(line.level) >= levels.indexOf(level);
}

/** One line per fact; no cursor movement; nothing that changes between two equal runs but times and ids. */
export function plainProgress({ output, style, level }: ProgressOptions): Progress {
  const buffer = new LineBuffer();
  return {
    event(event) {
      for (const line of eventLines(event, buffer, style)) {
        if (isShown(line, level)) {
          output.write(`${line.text}\n`);
        }
      }
    },
    pause() {},
    close() {},
  };
}

/** Newline-delimited JSON, every event with its time. */
export function jsonProgress({ output, now }: ProgressOptions): Progress {
  return {
    event(event) {
      output.write(`${JSON.stringify({ time: new Date(now()).toISOString(), ...event })}\n`);
    },
    pause() {},
    close() {},
  };
}

function shownWidth(line: string): number {
  return displayWidth(line.replace(/\u001b\[\d+m/g, ''));
}

/** Events that the region shows and that need no line above it. */
const inRegion = new Set([
  'run.started',
  'step.started',
  'step.running',
  'step.finished',
  'step.skipped',
  'run.finished',
  'image.pulling',
  'image.pulled',
  'image.resolved',
  'image.copying',
  'image.copied',
  'blob.copied',
  'cancel.requested',
]);

/**
 * A region at the bottom of the terminal that is drawn again as things change, with the steps' output scrolling
 * above it. Only moves up by lines it drew itself, each cut to the width, so a resize or a log cannot garble it.
 */
export function liveProgress({ output, style, level, now, every }: ProgressOptions): Progress {
  const buffer = new LineBuffer();
  let state: LiveState = emptyLiveState;
  let drawn: readonly string[] = [];
  let drawnColumns = output.columns;
  const stop = every(100, () => draw([]));

  function erase(): string {
    if (drawn.length === 0) {
      return '';
    }
    // A terminal that became narrower has wrapped the old lines.
    const height = drawn.reduce(
      (sum, line) => sum + Math.max(1, Math.ceil(shownWidth(line) / Math.max(1, output.columns))),
      0,
    );
    return `\u001b[${height}A\r\u001b[J`;
  }

  function draw(above: readonly string[]): void {
    const lines = drawLive(state, now(), { columns: output.columns, rows: output.rows, color: style.color });
    const isSame = lines.length === drawn.length && lines.every((line, index) => line === drawn[index]);
    if (above.length === 0 && isSame && drawnColumns === output.columns) {
      return;
    }
    output.write(erase() + [...above, ...lines].map((line) => `${line}\n`).join(''));
    drawn = lines;
    drawnColumns = output.columns;
  }

  return {
    event(event) {
      const lines = eventLines(event, buffer, style).filter((line) => isShown(line, level));
      state = reduceLive(state, event, now());
      const above = inRegion.has(event.type) ? lines.slice(0, -1) : lines;
      // Progress of blobs comes by the thousand: the clock draws it.
      if (event.type !== 'blob.progress') {
        draw(above.map((line) => line.text));
      }
    },
    pause() {
      output.write(erase());
      drawn = [];
    },
    close() {
      draw([]);
      stop();
    },
  };
}
