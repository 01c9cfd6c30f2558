import type { CollectedFile, ContainerFile, Session } from '../engine/index.ts';
import { isSkycapError, type SkycapError } from '../kernel/index.ts';
import {
  containerPath,
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
  readonly changed: readonly ContainerFile[];
  /** The first output that could not be had. */
  readonly error?: SkycapError;
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
    /** Files outside the workspace as the container found them when it started. */
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
      if (bytes !== undefined)
        outputs.set(name, outputValue(bytes, declaredOutput(plan, step, name), sensitive));
    } catch (cause) {
      if (!isSkycapError(cause)) throw cause;
      // A file of that name is not the value that the step declares.
      outputs.delete(name);
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
  const changed = files.filter(
    (file) =>
      outside.some((path) => file.path === path || file.path.startsWith(`${path}/`)) &&
      !isUnchanged(file, source.carried),
  );
  return {
    outputs,
    changed: changed.map((file) => carriedFile(file, plan)),
    ...(error === undefined ? {} : { error }),
  };
}

/** Of a matrix cell: what one property of the declared object is, text where the schema does not say. */
function declaredOutput(plan: Plan, step: PlanStep, name: string): PlanOutput | undefined {
  const declared = plan.outputs.find((output) => output.name === name);
  if (step.cell === undefined || declared?.schema.type !== 'object') return declared;
  const { additionalProperties: each } = declared.schema;
  if (typeof each !== 'object' || each === null || Array.isArray(each))
    return { ...declared, schema: { type: 'string' } };
  return { ...declared, schema: each as PlanOutput['schema'] };
}

function isUnchanged(file: CollectedFile, carried: readonly ContainerFile[]): boolean {
  const before = carried.find((other) => other.path === file.path);
  return before !== undefined && Buffer.compare(before.content, file.content) === 0;
}

function carriedFile(file: Pick<CollectedFile, 'path' | 'content' | 'mode'>, plan: Plan): ContainerFile {
  // Only what an output declares as plain may leave the tmpfs.
  const isPlain = plan.outputs.some(
    (output) => !output.sensitive && output.path !== undefined && containerPath(output.path) === file.path,
  );
  return { path: file.path, content: file.content, mode: file.mode, sensitive: !isPlain, readOnly: false };
}

/** Later files win; steps that ran side by side each add what they changed. */
export function mergeCarried(
  before: readonly ContainerFile[],
  changed: readonly ContainerFile[],
): readonly ContainerFile[] {
  return [...before.filter((file) => !changed.some((other) => other.path === file.path)), ...changed];
}

/** Outputs outside the workspace that earlier steps of a resumed run made, as files for the containers to come. */
export function carriedOutputs(
  plan: Plan,
  outputs: ReadonlyMap<string, KnownValue>,
): readonly ContainerFile[] {
  return plan.outputs.flatMap((output) => {
    const known = outputs.get(output.name);
    if (known === undefined || output.path === undefined) return [];
    const path = containerPath(output.path);
    if (path.startsWith(`${workspacePath}/`)) return [];
    return [carriedFile({ path, content: known.bytes, mode: 0o644 }, plan)];
  });
}
