import { defineConfig } from 'vitest/config';

/** What cannot share a process with the tests of other files: it changes modules, or what is read once, when one is loaded. */
const APART = [
  'src/oci/layer/acl.test.ts',
  'src/oci/registry/client/network.test.ts',
  'src/oci/registry/credentials/together.test.ts',
  'src/oci/registry/server/uploads-together.test.ts',
  'src/oci/store/compare.test.ts',
  'src/oci/store/hidden.test.ts',
  'src/oci/store/index-faults.test.ts',
  'src/oci/store/layout-together.test.ts',
  'src/oci/store/lock.test.ts',
  'src/oci/store/steps.test.ts',
  'src/oci/store/turn.test.ts',
];
const chosen = JSON.parse(process.env.SKYCAP_MUTATION_TESTS ?? '[]') as readonly string[];

/**
 * The tests that judge the mutants of one room. One process for all files of a run: there are thousands of runs, and
 * most of their time would go into starting processes. Stryker watches the time, with the mutant and without.
 */
export default defineConfig({
  test: {
    testTimeout: 0,
    hookTimeout: 0,
    projects: [
      {
        extends: true,
        test: { name: 'together', isolate: false, include: chosen.filter((path) => !APART.includes(path)) },
      },
      {
        extends: true,
        test: { name: 'apart', include: chosen.filter((path) => APART.includes(path)) },
      },
    ],
  },
});
