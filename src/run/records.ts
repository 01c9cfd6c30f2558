import type { PlanStep } from '../plan/index.ts';
import type { AttemptRecord, StateStore, StepChange, StepRecord, StepState } from '../state/index.ts';

/** The record of one run's steps: changed in memory, written through to the state store at once. */
export class StepRecords {
  readonly #records: Map<string, StepRecord>;
  readonly #store: StateStore;
  readonly #runId: string;

  constructor(store: StateStore, runId: string, steps: readonly PlanStep[]) {
    this.#store = store;
    this.#runId = runId;
    this.#records = new Map(steps.map((step) => [step.id, pendingRecord(step)]));
  }

  get(id: string): StepRecord {
    const record = this.#records.get(id);
    if (record === undefined) throw new Error(`no record of step ${id}`);
    return record;
  }

  all(): readonly StepRecord[] {
    return [...this.#records.values()];
  }

  states(): ReadonlyMap<string, StepState> {
    return new Map([...this.#records].map(([id, record]) => [id, record.state]));
  }

  /** In memory alone: what follows at once writes it. */
  note(id: string, change: Partial<StepRecord>): StepRecord {
    const record = { ...this.get(id), ...change };
    this.#records.set(id, record);
    return record;
  }

  /** With an attempt where one begins or ends, and in one commit with what becomes true with it. */
  async update(
    id: string,
    change: Partial<StepRecord>,
    { attempt, ...together }: StepChange & { readonly attempt?: AttemptRecord | undefined } = {},
  ): Promise<void> {
    const before = change.attempts ?? this.get(id).attempts;
    const attempts =
      attempt === undefined
        ? before
        : [...before.filter((other) => other.number !== attempt.number), attempt];
    await this.#store.putStep(this.#runId, this.note(id, { ...change, attempts }), together);
  }
}

export function pendingRecord(step: PlanStep): StepRecord {
  return {
    id: step.id,
    index: step.index,
    description: 'value' in step.description ? String(step.description.value) : step.description.template,
    state: 'pending',
    image: step.image,
    attempts: [],
  };
}
