import type { Json } from '../document/index.ts';
import type { KnownValue, Plan, PlanStep } from '../plan/index.ts';
import type { OutputRecord } from '../state/index.ts';
import { isBinary } from './binary.ts';
import type { RunRequest } from './types.ts';

/** Outputs that no step's record is written with. */
export async function recordOutputs(
  request: OutputContext,
  step: PlanStep | undefined,
  outputs: ReadonlyMap<string, KnownValue>,
): Promise<void> {
  for (const record of outputRecords(request, outputs)) await request.state.putOutput(record);
  emitOutputs(request, step, outputs);
}

type OutputContext = Pick<RunRequest, 'state' | 'installationId' | 'runId' | 'emit' | 'plan' | 'now'>;

export function outputRecords(
  request: OutputContext,
  outputs: ReadonlyMap<string, KnownValue>,
): readonly OutputRecord[] {
  return [...outputs].map(([name, value]) => ({
    installationId: request.installationId,
    runId: request.runId,
    name,
    sensitive: value.sensitive,
    contentType: isBinary(value) ? 'binary' : typeof value.json === 'string' ? 'text' : 'json',
    value: value.bytes,
    created: request.now().toISOString(),
  }));
}

export function emitOutputs(
  request: OutputContext,
  step: PlanStep | undefined,
  outputs: ReadonlyMap<string, KnownValue>,
): void {
  for (const [name, value] of outputs) {
    request.emit({
      type: 'output.collected',
      name,
      sensitive: value.sensitive,
      ...(step === undefined ? {} : { step: step.id }),
      ...(value.sensitive ? {} : shown(value)),
    });
  }
}

function shown(value: KnownValue): { readonly value: Json; readonly encoding?: 'base64' } {
  return { value: value.json, ...(isBinary(value) ? { encoding: 'base64' } : {}) };
}

/**
 * Puts a step's outputs among the run's. Those of matrix cells become one object by the cell's value; it is sensitive
 * as soon as one cell's is.
 *
 * @returns what changed, under the names and with the values that are recorded
 */
export function mergeOutputs(
  all: Map<string, KnownValue>,
  { plan, step }: { readonly plan: Plan; readonly step: PlanStep },
  outputs: ReadonlyMap<string, KnownValue>,
): ReadonlyMap<string, KnownValue> {
  const changed = new Map<string, KnownValue>();
  for (const [name, value] of outputs) {
    const merged = step.cell === undefined ? value : withCell(all.get(name), { plan, step }, value);
    all.set(name, merged);
    changed.set(name, merged);
  }
  return changed;
}

/** Cells that the matrix no longer has go; those that did not run this time keep the last run's value. */
function withCell(
  before: KnownValue | undefined,
  { plan, step }: { readonly plan: Plan; readonly step: PlanStep },
  value: KnownValue,
): KnownValue {
  const cell = cellKey(step);
  const cells = new Set(plan.steps.filter((other) => other.name === step.name).map(cellKey));
  const others =
    typeof before?.json === 'object' && before.json !== null && !Array.isArray(before.json)
      ? before.json
      : {};
  const kept = Object.entries(others).filter(([key]) => cells.has(key));
  const json = { ...(Object.fromEntries(kept) as Record<string, Json>), [cell]: value.json };
  return {
    json,
    bytes: new TextEncoder().encode(JSON.stringify(json)),
    sensitive: value.sensitive || before?.sensitive === true,
  };
}

function cellKey(step: PlanStep): string {
  return step.id.slice(step.name.length + 1, -1);
}
