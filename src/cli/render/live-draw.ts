import { escapeLine } from '../../kernel/index.ts';
import type { LiveCopy, LiveImage, LiveState, LiveStep, Phase } from './live-state.ts';
import { type Color, paint } from './style.ts';
import { formatBytes, formatDuration, shortDigest } from './units.ts';
import { displayWidth, padEnd, truncate } from './width.ts';

export interface Screen {
  readonly columns: number;
  readonly rows: number;
  readonly color: boolean;
}

const marks: Readonly<Record<Phase, readonly [string, Color | undefined]>> = {
  waiting: ['·', 'dim'],
  preparing: ['◌', 'cyan'],
  running: ['●', 'cyan'],
  retrying: ['↻', 'yellow'],
  skipped: ['-', 'dim'],
  succeeded: ['✓', 'green'],
  ignored: ['!', 'yellow'],
  failed: ['✗', 'red'],
};

const BAR = 20;

/** The region's lines, none wider than the screen and all together lower than it. */
export function drawLive(state: LiveState, nowMs: number, screen: Screen): string[] {
  const lines: string[] = [];
  const width = Math.max(10, screen.columns - 1);
  if (state.title !== '') {
    const elapsed = state.finished?.durationMs ?? nowMs - (state.startedMs ?? nowMs);
    const status = state.finished === undefined ? '' : ` · ${state.finished.state}`;
    lines.push(paint(screen, 'bold', justify(`${state.title}${status}`, formatDuration(elapsed), width)));
  }
  for (const step of visibleSteps(state.steps, Math.max(1, screen.rows - 4 - openImages(state).length))) {
    lines.push(...stepLines(step, nowMs, width, screen));
  }
  for (const image of openImages(state)) {
    lines.push(truncate(`↓ ${escapeLine(image.reference)}  ${pullText(state, image)}`, width));
  }
  if (state.copy !== undefined) {
    lines.push(...copyLines(state.copy, width, screen.rows - lines.length - 2));
  }
  if (state.note !== undefined) {
    lines.push(paint(screen, 'yellow', truncate(escapeLine(state.note), width)));
  }
  return lines.slice(0, Math.max(1, screen.rows - 1));
}

function openImages(state: LiveState): readonly LiveImage[] {
  return state.images.filter((image) => !image.isDone).slice(0, 4);
}

/** One bar a blob on its way; on a low screen the first of them. */
function copyLines(copy: LiveCopy, width: number, room: number): string[] {
  const title = justify(`↦ ${copy.target}`, `${copy.arrived} of ${copy.blobs} blobs`, width);
  const bars = [...copy.moving].slice(0, Math.max(1, room - 1)).map(([digest, { doneBytes, sizeBytes }]) => {
    const share = sizeBytes === 0 ? 1 : Math.min(1, doneBytes / sizeBytes);
    const full = Math.floor(share * BAR);
    const bar = `${'█'.repeat(full)}${'░'.repeat(BAR - full)}`;
    const size = `${formatBytes(doneBytes)} of ${formatBytes(sizeBytes)}`;
    return truncate(
      `  ${shortDigest(digest)} ${bar} ${String(Math.floor(share * 100)).padStart(3)}%  ${size}`,
      width,
    );
  });
  return [title, ...bars];
}

/** With one image on its way all blobs are its own; with several, sizes alone are told and one sum at the last. */
function pullText(state: LiveState, image: LiveImage): string {
  const open = openImages(state);
  if (image !== open.at(-1)) {
    return formatBytes(image.sizeBytes);
  }
  const done = [...state.blobs.values()].reduce((sum, bytes) => sum + bytes, 0);
  const total = state.images.reduce((sum, i) => sum + i.sizeBytes, 0);
  const percent = total === 0 ? 0 : Math.min(100, Math.floor((done / total) * 100));
  return `${formatBytes(done)} of ${formatBytes(total)} ${percent}%`;
}

/** On a low screen: what runs, with as much around it as fits, and how many are left out. */
function visibleSteps(steps: readonly LiveStep[], room: number): readonly (LiveStep | string)[] {
  const perStep = steps.filter((step) => step.phase === 'running' && step.lastLine !== undefined).length;
  const fits = room - perStep;
  if (steps.length <= fits) {
    return steps;
  }
  const active = Math.max(
    0,
    steps.findIndex((step) => ['preparing', 'running', 'retrying', 'failed'].includes(step.phase)),
  );
  const count = Math.max(1, fits - 2);
  const first = Math.max(0, Math.min(active - Math.floor(count / 2), steps.length - count));
  const shown: (LiveStep | string)[] = steps.slice(first, first + count);
  const after = steps.length - first - count;
  return [
    ...(first > 0 ? [`  … ${first} before`] : []),
    ...shown,
    ...(after > 0 ? [`  … ${after} after`] : []),
  ];
}

function stepLines(step: LiveStep | string, nowMs: number, width: number, screen: Screen): string[] {
  if (typeof step === 'string') {
    return [paint(screen, 'dim', truncate(step, width))];
  }
  const [mark, color] = marks[step.phase];
  const time = step.durationMs ?? (step.startedMs === undefined ? undefined : nowMs - step.startedMs);
  const attempt = step.attempt > 1 ? ` (attempt ${step.attempt})` : '';
  const isOpen = ['preparing', 'running', 'retrying', 'skipped', 'failed'].includes(step.phase);
  const phase = isOpen ? `  ${step.phase}${attempt}` : attempt;
  const text = `${escapeLine(step.id)}  ${escapeLine(step.description)}${phase}`;
  const line = justify(text, time === undefined ? '' : formatDuration(time), width - 2);
  const lines = [`${color === undefined ? mark : paint(screen, color, mark)} ${line}`];
  if (step.phase === 'running' && step.lastLine !== undefined) {
    lines.push(paint(screen, 'dim', truncate(`    ${escapeLine(step.lastLine)}`, width)));
  }
  return lines;
}

/** Left text cut so that the right one stands at the edge. */
function justify(left: string, right: string, width: number): string {
  const room = width - displayWidth(right) - (right === '' ? 0 : 1);
  const cut = truncate(escapeLine(left), room);
  return right === '' ? cut : `${padEnd(cut, room)} ${right}`;
}
