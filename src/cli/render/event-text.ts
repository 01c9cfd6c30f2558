import type { Event } from '../../kernel/index.ts';
import { escapeLine, escapeTerminal, neutraliseWorkflowCommands, shellWord } from '../../kernel/index.ts';
import type { OciEvent } from '../../oci/index.ts';
import type { RunEvent } from '../../run/index.ts';
import type { Style } from '../types.ts';
import { binaryCell } from './binary.ts';
import type { LineBuffer } from './lines.ts';
import { type Color, paint } from './style.ts';
import { counted, formatBytes, formatDuration, shortDigest } from './units.ts';

export type Level = 'debug' | 'info' | 'warning' | 'error';
export const levels: readonly Level[] = ['debug', 'info', 'warning', 'error'];

export interface EventLine {
  readonly level: Level;
  readonly text: string;
}

/** Of this room: what was composed, and what a cancellation waits for. */
export type CliEvent =
  | { readonly type: 'engine.chosen'; readonly engine: string; readonly because: string }
  | { readonly type: 'cancel.requested'; readonly message: string };

type Known = RunEvent | OciEvent | CliEvent;

/**
 * What the plain view, and the part above the live view, says of an event. Steps' output is `STEP | text` and their
 * fate `step STEP: …`, so that both can be found with grep. Unknown events are told by their fields.
 */
export function eventLines(
  event: Event,
  buffer: LineBuffer,
  style: Pick<Style, 'color' | 'ci'>,
): readonly EventLine[] {
  const known = event as Known;
  if (known.type === 'step.output') {
    return buffer
      .add(`${known.step}\n${known.stream}`, known.text)
      .map((line) => outputLine(known.step, line, style));
  }
  if (known.type === 'step.finished' || known.type === 'step.retrying') {
    const rest = ['stdout', 'stderr'].flatMap((stream) => buffer.flush(`${known.step}\n${stream}`));
    return [...rest.map((line) => outputLine(known.step, line, style)), toLine(known, style)];
  }
  return [toLine(known, style)];
}

function outputLine(step: string, line: string, style: Pick<Style, 'color' | 'ci'>): EventLine {
  const name = paint(style, 'cyan', escapeLine(step));
  return { level: 'info', text: `${name} | ${neutraliseWorkflowCommands(escapeTerminal(line), style.ci)}` };
}

function toLine(event: Known, style: Pick<Style, 'color' | 'ci'>): EventLine {
  const { level, text } = say(event, style);
  return { level, text: neutraliseWorkflowCommands(text, style.ci) };
}

function say(event: Known, style: Pick<Style, 'color' | 'ci'>): EventLine {
  switch (event.type) {
    case 'run.started': {
      const count = counted(event.steps.length, 'step');
      const where = event.namespace === '' ? '' : ` in namespace ${escapeLine(event.namespace)}`;
      const head = `${escapeLine(event.action)} ${escapeLine(event.installation)}${where}`;
      const what = `${escapeLine(event.bundle)} ${escapeLine(event.version)}, ${count} on ${escapeLine(event.engine)}`;
      return info(`${paint(style, 'bold', head)}: ${what}, run ${event.runId}`);
    }
    case 'step.started': {
      const again = event.attempt > 1 ? `, attempt ${event.attempt}` : '';
      return info(
        `${stepName(event.step)}: started: ${escapeLine(event.description)} (${escapeLine(event.image)})${again}`,
      );
    }
    case 'step.running':
      return debug(`${stepName(event.step)}: running`);
    case 'step.retrying':
      return warn(
        `${stepName(event.step)}: exit code ${event.exitCode}, tried again in ${formatDuration(event.delayMs)}`,
        style,
      );
    case 'step.skipped':
      return info(`${stepName(event.step)}: skipped: ${escapeLine(event.reason)}`);
    case 'step.finished':
      return stepFinished(event, style);
    case 'step.kept':
      return info(
        `${stepName(event.step)}: container kept, shell: ${escapeLine(event.shell.map(shellWord).join(' '))}`,
      );
    case 'output.collected':
      return info(
        `output ${escapeLine(event.name)}${event.sensitive ? ' (sensitive)' : ` = ${outputValue(event)}`}`,
      );
    case 'run.finished': {
      const color = event.state === 'succeeded' ? 'green' : 'red';
      const why = event.message === undefined ? '' : `: ${escapeLine(event.message)}`;
      const text = `run ${event.runId}: ${paint(style, color, event.state)} in ${formatDuration(event.durationMs)}${why}`;
      return { level: event.state === 'succeeded' ? 'info' : 'error', text };
    }
    case 'cancel.requested':
      return warn(escapeLine(event.message), style);
    case 'notice':
      return info(`note: ${escapeLine(event.message)}`);
    case 'engine.notice':
      return info(`note: ${escapeLine(event.message)}`);
    case 'warning':
      return warn(`[${escapeLine(event.code)}] ${escapeLine(event.message)}`, style, 'warning: ');
    case 'engine.chosen':
      return debug(`engine ${event.engine}: ${escapeLine(event.because)}`);
    case 'engine.image':
      return debug(`image ${escapeLine(event.image)}: ${event.phase}`);
    case 'image.resolved':
      // What is named by its digest tells nothing by being it.
      return (event.reference.endsWith(`@${event.digest}`) ? debug : info)(
        `image ${escapeLine(event.reference)} is ${event.digest}`,
      );
    case 'image.pulling':
      return info(
        `image ${escapeLine(event.reference)}: pulling ${counted(event.layers, 'layer')}, ${formatBytes(event.sizeBytes)}`,
      );
    case 'image.pulled':
      return info(`image ${escapeLine(event.reference)}: pulled ${shortDigest(event.digest)}`);
    case 'image.copying':
      return info(
        `copying ${escapeLine(event.source)} to ${escapeLine(event.target)}: ${counted(event.manifests, 'manifest')}, ${counted(event.blobs, 'blob')}, ${formatBytes(event.sizeBytes)}`,
      );
    case 'image.copied':
      return info(`copied to ${escapeLine(event.target)}: ${shortDigest(event.digest)}`);
    case 'blob.copied':
      return info(
        `blob ${shortDigest(event.digest)}: ${howCopied[event.how]}, ${formatBytes(event.sizeBytes)}`,
      );
    case 'blob.progress':
      return debug(
        `blob ${shortDigest(event.digest)}: ${formatBytes(event.doneBytes)} of ${formatBytes(event.sizeBytes)}`,
      );
    case 'blob.retry':
      return warn(
        `blob ${shortDigest(event.digest)}: ${retryReason(event.reason)}, resumed at ${formatBytes(event.offset)}`,
        style,
      );
    case 'registry.retry':
      return warn(
        `registry ${escapeLine(event.registry)}: ${retryReason(event.reason)}, tried again in ${formatDuration(event.delayMs)}`,
        style,
      );
    case 'registry.warning':
      return warn(`registry ${escapeLine(event.registry)}: ${escapeLine(event.message)}`, style, 'warning: ');
    case 'layer.unpacked':
      return debug(`layer ${shortDigest(event.diffId)}: unpacked ${event.entries} entries`);
    case 'layer.folder':
      return debug(`layer ${shortDigest(event.diffId)}: a folder, because it ${escapeLine(event.because)}`);
    default:
      return unknownEvent(event);
  }
}

const retryReasons: Readonly<Record<string, string>> = {
  connect: 'cannot be reached',
  dns: 'its name is not found',
  reset: 'the connection broke',
  timeout: 'too slow',
  'status 429': 'too many requests (status 429)',
};

/** What went wrong is named by kinds of failure, statuses and codes; the usual ones have words. */
function retryReason(reason: string): string {
  return retryReasons[reason] ?? escapeLine(reason);
}

const howCopied = { present: 'there already', mounted: 'mounted', copied: 'copied' } as const;

/** An event of a room or version that this view does not know. */
function unknownEvent(event: Event): EventLine {
  const { type, ...fields } = event as Event & Record<string, unknown>;
  const words = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  return info(escapeLine([type, ...words].join(' ')));
}

function stepFinished(
  event: Extract<RunEvent, { type: 'step.finished' }>,
  style: Pick<Style, 'color' | 'ci'>,
): EventLine {
  const isGood = event.state === 'succeeded' || event.ignored === true;
  const color: Color = event.state === 'succeeded' ? 'green' : event.ignored === true ? 'yellow' : 'red';
  const code =
    event.exitCode === undefined || event.exitCode === 0 ? '' : ` with exit code ${event.exitCode}`;
  const ignored = event.ignored === true ? ' (ignored)' : '';
  const why = event.message === undefined ? '' : `: ${escapeLine(event.message)}`;
  const state = paint(style, color, event.state);
  const text = `${stepName(event.step)}: ${state}${code} in ${formatDuration(event.durationMs)}${ignored}${why}`;
  return { level: isGood ? 'info' : 'error', text };
}

function outputValue({ name, value, encoding }: Extract<RunEvent, { type: 'output.collected' }>): string {
  if (encoding !== undefined) return escapeLine(binaryCell(name, Buffer.byteLength(String(value), encoding)));
  const text = typeof value === 'string' ? value : JSON.stringify(value ?? null);
  return escapeLine(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}

function stepName(step: string): string {
  return `step ${escapeLine(step)}`;
}

function info(text: string): EventLine {
  return { level: 'info', text };
}

function debug(text: string): EventLine {
  return { level: 'debug', text };
}

function warn(text: string, style: Pick<Style, 'color' | 'ci'>, prefix = ''): EventLine {
  return { level: 'warning', text: `${paint(style, 'yellow', prefix)}${text}` };
}
