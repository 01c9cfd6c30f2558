import type { Event } from '../../kernel/index.ts';
import type { OciEvent } from '../../oci/index.ts';
import type { RunEvent } from '../../run/index.ts';

export type Phase =
  | 'waiting'
  | 'preparing'
  | 'running'
  | 'retrying'
  | 'skipped'
  | 'succeeded'
  | 'ignored'
  | 'failed';

export interface LiveStep {
  readonly id: string;
  readonly description: string;
  readonly phase: Phase;
  readonly attempt: number;
  readonly startedMs?: number;
  readonly durationMs?: number;
  readonly lastLine?: string;
}

export interface LiveImage {
  readonly reference: string;
  readonly sizeBytes: number;
  readonly isDone: boolean;
}

export interface LiveCopy {
  readonly target: string;
  readonly blobs: number;
  readonly arrived: number;
  readonly moving: ReadonlyMap<string, { readonly doneBytes: number; readonly sizeBytes: number }>;
}

/** What the live view shows, as data: events go in, lines come out of `drawLive`. */
export interface LiveState {
  readonly title: string;
  readonly startedMs: number | undefined;
  readonly finished: { readonly state: string; readonly durationMs: number } | undefined;
  readonly steps: readonly LiveStep[];
  readonly images: readonly LiveImage[];
  readonly blobs: ReadonlyMap<string, number>;
  /** While images are copied: what is on its way, a bar each, and how many blobs have arrived. */
  readonly copy: LiveCopy | undefined;
  /** What the user should know while it goes on, e.g. what a cancellation waits for. */
  readonly note: string | undefined;
}

export const emptyLiveState: LiveState = {
  title: '',
  startedMs: undefined,
  finished: undefined,
  steps: [],
  images: [],
  blobs: new Map(),
  copy: undefined,
  note: undefined,
};

type Known = RunEvent | OciEvent | { readonly type: 'cancel.requested'; readonly message: string };

export function reduceLive(state: LiveState, raw: Event, nowMs: number): LiveState {
  const event = raw as Known;
  switch (event.type) {
    case 'run.started':
      return {
        ...state,
        title: `${event.action} ${event.installation} · ${event.bundle} ${event.version} · ${event.engine}`,
        startedMs: nowMs,
        steps: event.steps.map(({ id, description }) => ({ id, description, phase: 'waiting', attempt: 0 })),
      };
    case 'step.started':
      return withStep(state, event.step, {
        description: event.description,
        phase: 'preparing',
        attempt: event.attempt,
        ...(event.attempt === 1 ? { startedMs: nowMs } : {}),
      });
    case 'step.running':
      return withStep(state, event.step, { phase: 'running' });
    case 'step.retrying':
      return withStep(state, event.step, { phase: 'retrying' });
    case 'step.skipped':
      return withStep(state, event.step, { phase: 'skipped' });
    case 'step.finished':
      return withStep(state, event.step, {
        phase: event.state === 'succeeded' ? 'succeeded' : event.ignored === true ? 'ignored' : 'failed',
        durationMs: event.durationMs,
      });
    case 'step.output': {
      const line = event.text.trimEnd().split('\n').at(-1);
      return line === undefined || line === '' ? state : withStep(state, event.step, { lastLine: line });
    }
    case 'image.pulling': {
      const image = { reference: event.reference, sizeBytes: event.sizeBytes, isDone: false };
      return { ...state, images: [...state.images.filter((i) => i.reference !== event.reference), image] };
    }
    case 'image.pulled':
      return {
        ...state,
        images: state.images.map((i) => (i.reference === event.reference ? { ...i, isDone: true } : i)),
      };
    case 'blob.progress':
      return {
        ...state,
        blobs: new Map(state.blobs).set(event.digest, event.doneBytes),
        ...(state.copy === undefined ? {} : { copy: moved(state.copy, event) }),
      };
    case 'image.copying':
      return {
        ...state,
        copy: { target: event.target, blobs: event.blobs, arrived: 0, moving: new Map() },
      };
    case 'blob.copied':
      return state.copy === undefined ? state : { ...state, copy: arrived(state.copy, event.digest) };
    case 'image.copied':
      return { ...state, copy: undefined };
    case 'run.finished':
      return { ...state, finished: { state: event.state, durationMs: event.durationMs }, note: undefined };
    case 'cancel.requested':
      return { ...state, note: event.message };
    default:
      return state;
  }
}

function moved(
  copy: LiveCopy,
  { digest, doneBytes, sizeBytes }: Extract<OciEvent, { type: 'blob.progress' }>,
): LiveCopy {
  return { ...copy, moving: new Map(copy.moving).set(digest, { doneBytes, sizeBytes }) };
}

function arrived(copy: LiveCopy, digest: string): LiveCopy {
  const moving = new Map(copy.moving);
  moving.delete(digest);
  return { ...copy, moving, arrived: copy.arrived + 1 };
}

/** A step that the start did not announce is added at the end. */
function withStep(state: LiveState, id: string, change: Partial<LiveStep>): LiveState {
  const known = state.steps.some((step) => step.id === id);
  const steps = known
    ? state.steps
    : [...state.steps, { id, description: '', phase: 'waiting' as const, attempt: 1 }];
  return { ...state, steps: steps.map((step) => (step.id === id ? { ...step, ...change } : step)) };
}
