import { defineConfig } from 'vitest/config';

// Unit and contract tests stand beside the code; whole-program tests in test/. Engines, registries and the
// corpus have projects of their own, so that each can be asked for (and missed) by name.
//
// Two files at a time, of all projects: most of what a file with containers takes is waiting. A test file therefore
// has folders, ports, image names and run ids of its own, and looks for nothing that is not its own on the host.
export default defineConfig({
  test: {
    globalSetup: ['test/support/global-setup.ts'],
    // For what hangs, on however slow a machine; a test that is about time measures it itself.
    testTimeout: 300_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 120_000 } },
    maxWorkers: 2,
    // Tests of one file that are declared concurrent.
    maxConcurrency: 3,
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts', 'test/fuzz/*.test.ts', 'test/mutation/*.test.ts'],
          exclude: ['**/*.live.test.ts'],
        },
      },
      {
        extends: true,
        test: { name: 'live', include: ['src/**/*.live.test.ts', 'test/fuzz/*.live.test.ts'] },
      },
      { extends: true, test: { name: 'e2e', include: ['test/e2e/**/*.test.ts'], testTimeout: 600_000 } },
      { extends: true, test: { name: 'corpus', include: ['test/corpus/**/*.test.ts'] } },
    ],
  },
});
