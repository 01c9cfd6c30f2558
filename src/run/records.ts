import type { PlanStep } from '../plan/index.ts';
import type { AttemptRecord, StateStore, StepRecord, StepState } from '../state/index.ts';

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

  async update(id: string, change: Partial<StepRecord>): Promise<void> {
    const record = { ...this.get(id), ...change };
    this.#records.set(id, record);
    await this.#store.putStep(this.#runId, record);
  }

  async updateAttempt(id: string, attempt: AttemptRecord, change: Partial<StepRecord> = {}): Promise<void> {
    const others = this.get(id).attempts.filter((other) => other.number !== attempt.number);
    await this.update(id, { ...change, attempts: [...others, attempt] });
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
