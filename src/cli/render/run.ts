import type { OutputRecord, Run, StepRecord } from '../../state/index.ts';
import { binaryCell } from './binary.ts';
import { cellOf, hidden, lostText, shown, typeOf } from './installation.ts';
import { properties, section, table } from './table.ts';
import { formatAge, formatDuration } from './units.ts';

/** As its record says, but for one whose process is gone: nobody knows yet how it ended. */
export type ShownRun = Omit<Run, 'state'> & { readonly state: Run['state'] | 'interrupted' };

/** Name and version of the bundle, from the plan that was kept with the run. */
export function bundleOf(run: ShownRun): {
  readonly name: string;
  readonly version: string;
  readonly reference?: string;
} {
  try {
    const { bundle } = JSON.parse(run.plan) as {
      bundle?: { name?: string; version?: string; reference?: string };
    };
    const reference = bundle?.reference;
    return {
      name: bundle?.name ?? '',
      version: bundle?.version ?? '',
      ...(reference === undefined ? {} : { reference }),
    };
  } catch {
    return { name: '', version: '' };
  }
}

/** Porter's keys of a run in a list (id, bundle, version, action, started, stopped, status), and ours after them. */
export function runJson(run: ShownRun): Record<string, unknown> {
  const bundle = bundleOf(run);
  return {
    id: run.id,
    bundle: bundle.reference ?? bundle.name,
    version: bundle.version,
    action: run.action,
    ...(Object.keys(run.parameters).length === 0
      ? {}
      : {
          parameters: Object.fromEntries(Object.entries(run.parameters).map(([n, v]) => [n, shown(v)])),
        }),
    started: run.started ?? run.created,
    stopped: run.finished ?? null,
    status: run.state,
    namespace: run.namespace,
    installation: run.installation,
    engine: run.engine,
    revision: run.revision,
    ...(run.errorCode === undefined ? {} : { errorCode: run.errorCode }),
    ...(run.message === undefined ? {} : { message: run.message }),
  };
}

/** `run show`: the same and its steps. */
export function runDetailJson(run: ShownRun): Record<string, unknown> {
  return {
    ...runJson(run),
    state: run.state,
    bundleDigest: run.bundleDigest,
    steps: run.steps.map(stepJson),
  };
}

function stepJson(step: StepRecord): Record<string, unknown> {
  const { id, index, description, state, exitCode, attempts, image, startedAt, finishedAt, message } = step;
  return {
    id,
    index,
    description,
    state,
    ...(exitCode === undefined ? {} : { exitCode }),
    attempts,
    ...(image === undefined ? {} : { image }),
    ...(startedAt === undefined ? {} : { startedAt }),
    ...(finishedAt === undefined ? {} : { finishedAt }),
    ...(message === undefined ? {} : { message }),
  };
}

export function runTable(runs: readonly ShownRun[], nowMs: number): string {
  if (runs.length === 0) {
    return 'no runs\n';
  }
  return table(
    ['ID', 'INSTALLATION', 'ACTION', 'STATE', 'STARTED', 'TOOK', 'BUNDLE'],
    runs.map((run) => {
      const { name, version } = bundleOf(run);
      const started = run.started ?? run.created;
      return [
        run.id,
        run.installation,
        run.action,
        run.state,
        `${formatAge(started, nowMs)} ago`,
        took(started, run.finished),
        `${name} ${version}`.trim(),
      ];
    }),
  );
}

export function runText(run: ShownRun): string {
  const { name, version } = bundleOf(run);
  const started = run.started ?? run.created;
  return [
    properties([
      ['Run', run.id],
      ['Installation', run.installation],
      ['Namespace', run.namespace === '' ? undefined : run.namespace],
      ['Action', run.action],
      ['Bundle', `${name} ${version}`.trim()],
      ['Engine', run.engine],
      ['State', run.state],
      ['Started', started],
      ['Finished', run.finished],
      ['Message', run.message],
    ]),
    run.steps.length === 0
      ? ''
      : section(
          'Steps',
          table(
            ['ID', 'STATE', 'EXIT', 'ATTEMPTS', 'TOOK', 'IMAGE'],
            run.steps.map((step) => [
              step.id,
              step.state,
              step.exitCode === undefined ? '' : String(step.exitCode),
              String(step.attempts.length),
              step.startedAt === undefined ? '' : took(step.startedAt, step.finishedAt),
              step.image ?? '',
            ]),
          ),
        ),
  ].join('');
}

function took(started: string, finished: string | undefined): string {
  return finished === undefined ? '' : formatDuration(Date.parse(finished) - Date.parse(started));
}

/** Porter's keys (name, type, sensitive, value), and ours. Sensitive values are shown by `output show` alone. */
export function outputJson(output: OutputRecord): Record<string, unknown> {
  if (output.lostKey !== undefined) {
    const { name, sensitive, runId, created } = output;
    return { name, type: 'unknown', sensitive, value: lostText, runId, created };
  }
  const open = openOutputJson(output);
  if (!output.sensitive) return open;
  const { encoding: _, ...rest } = open;
  return { ...rest, value: hidden };
}

/** The same with its value, sensitive or not: for who asks for this one output. */
export function openOutputJson(output: OutputRecord): Record<string, unknown> {
  const value = outputValue(output);
  return {
    name: output.name,
    type: output.contentType === 'binary' ? 'string' : typeOf(value),
    sensitive: output.sensitive,
    value,
    ...(output.contentType === 'binary' ? { encoding: 'base64' } : {}),
    runId: output.runId,
    created: output.created,
    sizeBytes: output.value.byteLength,
  };
}

function outputValue(output: OutputRecord): unknown {
  const bytes = Buffer.from(output.value);
  if (output.contentType === 'binary') {
    return bytes.toString('base64');
  }
  const text = bytes.toString('utf8');
  if (output.contentType === 'text') {
    return text;
  }
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function outputTable(outputs: readonly OutputRecord[]): string {
  if (outputs.length === 0) {
    return 'no outputs\n';
  }
  return table(
    ['NAME', 'TYPE', 'VALUE'],
    outputs.map((output) => {
      const { type, value, encoding } = outputJson(output) as {
        type: string;
        value: unknown;
        encoding?: string;
      };
      return [
        output.name,
        type,
        encoding === undefined ? cellOf(value) : binaryCell(output.name, output.value.byteLength),
      ];
    }),
  );
}
