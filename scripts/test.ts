import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * The test command: every project of vitest but the corpus, then one line with the counts. Engines that are not
 * there are named; with SKYCAP_REQUIRE_ENGINES=1 they are failures.
 *
 * usage: node scripts/test.ts [--corpus] [-- vitest arguments]
 */
const root = join(import.meta.dirname, '..');
const args = process.argv.slice(2);
const projects = args.includes('--corpus') ? ['corpus'] : ['unit', 'live', 'e2e'];
const rest = args.filter((argument) => argument !== '--corpus' && argument !== '--');
const work = mkdtempSync(join(tmpdir(), 'skycap-test-'));
const report = join(work, 'report.json');

interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly success: boolean;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message?: string;
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
}

try {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const { status } = spawnSync(
    process.execPath,
    [
      vitest,
      'run',
      ...projects.flatMap((project) => ['--project', project]),
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
      ...rest,
    ],
    { cwd: root, stdio: 'inherit' },
  );
  const result = JSON.parse(readFileSync(report, 'utf8')) as Report;
  const skipped = result.numPendingTests + result.numTodoTests;
  for (const file of result.testResults) {
    for (const test of file.assertionResults) {
      if (test.status !== 'passed' && test.status !== 'failed')
        console.log(`not run: ${file.name.slice(root.length + 1)}: ${test.fullName}`);
    }
  }
  // A file that cannot be loaded has no failed test, and is a failure all the same.
  const broken = result.testResults.filter(
    (file) => file.status === 'failed' && file.assertionResults.every((test) => test.status !== 'failed'),
  ).length;
  console.log(
    `${result.numPassedTests} passed, ${result.numFailedTests + broken} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`,
  );
  process.exitCode = status === 0 && result.numPassedTests > 0 ? 0 : 1;
} finally {
  rmSync(work, { recursive: true, force: true });
}
