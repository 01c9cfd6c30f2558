import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ContractCase } from './case.ts';
import { commandCases } from './cases/commands.ts';
import { exitCases } from './cases/exits.ts';
import { fileCases } from './cases/files.ts';
import { lifetimeCases } from './cases/lifetimes.ts';
import { streamCases } from './cases/streams.ts';
import { userCases } from './cases/users.ts';
import { workspaceCases } from './cases/workspaces.ts';
import { CaseContext } from './context.ts';
import type { AllowedDifferences, ContractFixture } from './fixture.ts';

export type { AllowedDifferences, ContractFixture, ContractImage, Program } from './fixture.ts';

export const contractCases: readonly ContractCase[] = [
  ...exitCases,
  ...streamCases,
  ...commandCases,
  ...userCases,
  ...workspaceCases,
  ...fileCases,
  ...lifetimeCases,
];

export interface ContractOptions {
  readonly allowedDifferences?: AllowedDifferences;
  /** Runs a few cases at a time; they share the engine and nothing else. */
  readonly concurrent?: boolean;
}

/**
 * Declares the suite that every engine passes. Each engine runs every case: a difference that is allowed runs too,
 * and must fail, so that the list cannot outlive its reasons.
 */
export function engineContract(
  name: string,
  makeFixture: () => Promise<ContractFixture>,
  { allowedDifferences = {}, concurrent = false }: ContractOptions = {},
): void {
  describe(`engine contract: ${name}`, () => {
    let fixture: ContractFixture;
    let ran = 0;
    beforeAll(async () => {
      fixture = await makeFixture();
    }, 120_000);
    afterAll(async () => {
      await fixture?.[Symbol.asyncDispose]();
      console.info(
        `engine contract: ${name}: ${ran} of ${contractCases.length} cases, ${Object.keys(allowedDifferences).length} allowed differences`,
      );
    }, 120_000);

    const test = concurrent ? it.concurrent : it;
    for (const one of contractCases) {
      const reason = allowedDifferences[one.id];
      test(`${one.id}: ${one.title}${reason === undefined ? '' : ` [differs: ${reason}]`}`, async () => {
        ran += 1;
        const failure = await attempt(fixture, one);
        if (reason === undefined) {
          if (failure !== undefined) throw failure as Error;
        } else expect(failure, `this difference is none any more: ${reason}`).toBeDefined();
      }, 120_000);
    }

    it('ran every case, and every allowed difference names one', () => {
      expect(ran).toBe(contractCases.length);
      const ids = contractCases.map((one) => one.id);
      expect(new Set(ids).size).toBe(ids.length);
      expect(Object.keys(allowedDifferences).filter((id) => !ids.includes(id))).toEqual([]);
    });
  });
}

async function attempt(fixture: ContractFixture, one: ContractCase): Promise<unknown> {
  let failure: unknown;
  const context = new CaseContext(fixture);
  try {
    await one.run(context);
  } catch (cause) {
    failure = cause ?? new Error('failed');
  }
  await context[Symbol.asyncDispose]();
  const left = await context.leftovers();
  return failure ?? (left.length === 0 ? undefined : new Error(`left behind: ${left.join(', ')}`));
}
