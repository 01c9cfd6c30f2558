import type { CollectedFile, ContainerFile, Session } from '../engine/index.ts';
import { isSkycapError, type SkycapError } from '../kernel/index.ts';
import {
  type KnownValue,
  outputsPath,
  type Plan,
  type PlanOutput,
  type PlanStep,
  workspacePath,
} from '../plan/index.ts';
import { runError } from './errors.ts';
import { fromStdout, outputValue } from './extract.ts';
import type { StepOutput } from './step-output.ts';

const mostFileBytes = 256 * 1024 * 1024;
const mostTotalBytes = 1024 * 1024 * 1024;

export interface CollectedOutputs {
  readonly outputs: ReadonlyMap<string, KnownValue>;
  /** Files outside the workspace that the step created or changed; later containers find them. */
  readonly carried: readonly ContainerFile[];
  /** The first output that could not be had. */
  readonly error?: SkycapError;
}

/** An output's path as the container sees it. */
export function containerPath(path: string): string {
  return path.startsWith('/') ? path : `${workspacePath}/${path}`;
}

export function isInWorkspace(path: string): boolean {
  return path.startsWith(`${workspacePath}/`) && !path.startsWith(`${outputsPath}/`);
}

/** Declared paths outside the workspace, which `collect` must be told of before the container starts. */
export function pathsOutside(plan: Plan, step: PlanStep): readonly string[] {
  const declared = plan.outputs.flatMap((output) => (output.path === undefined ? [] : [output.path]));
  const own = step.outputs.flatMap((output) => (output.source.kind === 'path' ? [output.source.path] : []));
  const state = plan.state.kind === 'paths' ? plan.state.paths.map((entry) => entry.path) : [];
  const all = [...declared, ...own, ...state].map(containerPath);
  return [...new Set(all.filter((path) => !path.startsWith(`${workspacePath}/`)))];
}

/** Everything that an ended container leaves as outputs; collected after a failure too. */
export async function collectOutputs(
  plan: Plan,
  step: PlanStep,
  source: {
    readonly session: Session;
    readonly containerId: string;
    readonly printed: StepOutput;
    readonly carried: readonly ContainerFile[];
  },
): Promise<CollectedOutputs> {
  const outside = pathsOutside(plan, step);
  const inWorkspace = step.outputs.flatMap((output) =>
    output.source.kind === 'path' && isInWorkspace(containerPath(output.source.path))
      ? [containerPath(output.source.path)]
      : [],
  );
  const files = await source.session.collect(source.containerId, {
    paths: [outputsPath, ...outside, ...inWorkspace],
    maxFileBytes: mostFileBytes,
    maxTotalBytes: mostTotalBytes,
  });
  const byPath = new Map(files.map((file) => [file.path, file]));
  const outputs = new Map<string, KnownValue>();
  let error: SkycapError | undefined;
  const take = (name: string, read: () => Uint8Array | undefined, sensitive: boolean): void => {
    try {
      const bytes = read();
      if (bytes !== undefined) outputs.set(name, outputValue(bytes, declaredOutput(plan, name), sensitive));
    } catch (cause) {
      if (!isSkycapError(cause)) throw cause;
      error ??= cause;
    }
  };

  for (const output of plan.outputs) {
    const path = output.path === undefined ? `${outputsPath}/${output.name}` : containerPath(output.path);
    if (isInWorkspace(path)) continue;
    const file = byPath.get(path) ?? byPath.get(`${outputsPath}/${output.name}`);
    if (file !== undefined && !isUnchanged(file, source.carried))
      take(output.name, () => file.content, output.sensitive);
  }
  for (const output of step.outputs) {
    const from = output.source;
    take(
      output.name,
      () => {
        if (from.kind !== 'path') return fromStdout(output, source.printed.raw('stdout'), step.id);
        const file = byPath.get(containerPath(from.path));
        if (file !== undefined) return file.content;
        throw runError(
          'OUTPUT_MISSING',
          `step ${step.id}: output ${output.name}: there is no file ${containerPath(from.path)}`,
          {
            hint: 'let the step write it, or correct the path',
          },
        );
      },
      output.sensitive,
    );
  }
  const carried = files.filter((file) =>
    outside.some((path) => file.path === path || file.path.startsWith(`${path}/`)),
  );
  return {
    outputs,
    carried: mergeCarried(source.carried, carried, plan),
    ...(error === undefined ? {} : { error }),
  };
}

function declaredOutput(plan: Plan, name: string): PlanOutput | undefined {
  return plan.outputs.find((output) => output.name === name);
}

function isUnchanged(file: CollectedFile, carried: readonly ContainerFile[]): boolean {
  const before = carried.find((other) => other.path === file.path);
  return before !== undefined && Buffer.compare(before.content, file.content) === 0;
}

function mergeCarried(
  before: readonly ContainerFile[],
  now: readonly CollectedFile[],
  plan: Plan,
): readonly ContainerFile[] {
  const sensitive = new Set(
    plan.outputs
      .filter((output) => output.sensitive && output.path !== undefined)
      .map((output) => containerPath(output.path ?? '')),
  );
  const kept = before.filter((file) => !now.some((other) => other.path === file.path));
  return [
    ...kept,
    ...now.map((file) => ({
      path: file.path,
      content: file.content,
      mode: file.mode,
      sensitive: sensitive.has(file.path),
      readOnly: false,
    })),
  ];
}
