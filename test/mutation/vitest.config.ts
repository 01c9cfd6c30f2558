import { defineConfig } from 'vitest/config';

/**
 * The tests that judge the mutants of one room. One process for all files of a run: there are thousands of runs, and
 * most of their time would go into starting processes. Stryker watches the time, with the mutant and without.
 */
export default defineConfig({
  test: {
    include: JSON.parse(process.env.SKYCAP_MUTATION_TESTS ?? '[]') as string[],
    isolate: false,
    testTimeout: 0,
    hookTimeout: 0,
  },
});
