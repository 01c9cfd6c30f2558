import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * The test command: every project of vitest but the corpus, then one line with the counts. Engines that are not
 * there are named; with SKYCAP_REQUIRE_ENGINES=1 they are failures.
 *
 * usage: node scripts/test.ts [--corpus] [-- vitest arguments]
 */
/** What the live suites drive, and the Debian package that has it. */
const peers: Readonly<Record<string, string>> = {
  crun: 'crun',
  slirp4netns: 'slirp4netns',
  ip: 'iproute2',
  docker: 'docker.io',
  'docker-registry': 'docker-registry',
  buildah: 'buildah',
  podman: 'podman',
  skopeo: 'skopeo',
  umoci: 'umoci',
  busybox: 'busybox-static',
  setfattr: 'attr',
  setfacl: 'acl',
  'fsck.erofs': 'erofs-utils',
  htpasswd: 'apache2-utils',
  python3: 'python3',
};

const root = join(import.meta.dirname, '..');
const args = process.argv.slice(2);
const isRequired = process.env.SKYCAP_REQUIRE_ENGINES === '1';
const projects = args.includes('--corpus') ? ['corpus'] : ['unit', ...liveProjects(), 'e2e'];
const rest = args.filter((argument) => argument !== '--corpus' && argument !== '--');
const work = mkdtempSync(join(tmpdir(), 'skycap-test-'));
const report = join(work, 'report.json');

/** The live suites, where everything that they drive is there; else what is missing is said, and is red where required. */
function liveProjects(): readonly string[] {
  const folders = (process.env.PATH ?? '').split(':');
  const missing = Object.keys(peers).filter(
    (name) => !folders.some((folder) => existsSync(join(folder, name))),
  );
  if (missing.length === 0 || isRequired) return ['live'];
  console.warn(
    `NOT TESTED: engines and peers of the live suites (crun, docker, registries): ${missing.join(', ')} not installed`,
  );
  console.warn(`            apt-get install ${missing.map((name) => peers[name]).join(' ')}`);
  return [];
}

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
  for (const file of result.testResults) {
    const name = file.name.slice(root.length + 1);
    const failed = file.assertionResults.filter((test) => test.status === 'failed');
    for (const test of failed) console.log(`FAILED: ${name}: ${test.fullName}`);
    if (file.status === 'failed' && failed.length === 0)
      console.log(`FAILED: ${name}: ${file.message?.split('\n')[0] ?? ''}`);
  }
  if (status !== 0 && result.numFailedTests + broken === 0)
    console.log('FAILED: an error outside of tests, which stands above');
  console.log(
    `${result.numPassedTests} passed, ${result.numFailedTests + broken} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`,
  );
  process.exitCode = status === 0 && result.numPassedTests > 0 ? 0 : 1;
} finally {
  rmSync(work, { recursive: true, force: true });
}
