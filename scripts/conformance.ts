import { spawn, spawnSync } from 'node:child_process';
import { accessSync, constants, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { buildImage } from '../src/oci/image/index.ts';
import { loadStore, type ServeOptions, type Store } from '../src/oci/index.ts';
import { serveRegistry } from '../src/oci/registry/server/index.ts';
import { TEST_CA, TEST_SERVER_CERT, TEST_SERVER_KEY } from '../src/testkit/registry/certificates.ts';

/**
 * Runs the public conformance suite of the distribution specification against the built-in registry and writes what
 * came of it into docs/conformance.md. A row that failed or was skipped makes it red.
 */
const MODULE = 'github.com/opencontainers/distribution-spec/conformance';
const BEGIN = '<!-- distribution-spec: begin -->';
const END = '<!-- distribution-spec: end -->';
const PAGE = join(import.meta.dirname, '../docs/conformance.md');
const USER = { name: 'conformance', password: 'of:the:suite' };

interface Run {
  readonly title: string;
  /** What a reader should know about it. */
  readonly about: string;
  readonly serve: Partial<ServeOptions>;
  /** Beside address and TLS. */
  readonly env?: Readonly<Record<string, string>>;
  readonly readOnly?: boolean;
}

const tls = { cert: TEST_SERVER_CERT, key: TEST_SERVER_KEY };
/** What the suite leaves off unless a registry claims it. */
const CLAIMS = { OCI_VERSION: 'dev', OCI_DATA_SPARSE: 'true' };
const users = { [USER.name]: USER.password };
const login = { OCI_USERNAME: USER.name, OCI_PASSWORD: USER.password };
const RUNS: readonly Run[] = [
  { title: 'plain', about: "the suite's defaults over http", serve: { writable: true } },
  {
    title: 'TLS',
    about: "the suite's defaults over https, the certificate checked",
    serve: { writable: true, tls },
  },
  {
    title: 'plain, all',
    about:
      'with everything that the suite leaves off by default: cancelled uploads, digest headers, tag parameters, sparse manifests',
    serve: { writable: true, sparse: true },
    env: CLAIMS,
  },
  {
    title: 'TLS, all, token',
    about: 'the same over https, with tokens of its own token service',
    serve: { writable: true, sparse: true, tls, auth: { kind: 'token', users } },
    env: { ...CLAIMS, ...login },
  },
  {
    title: 'plain, all, basic',
    about: 'the same over http, with a password in every request',
    serve: { writable: true, sparse: true, auth: { kind: 'basic', users } },
    env: { ...CLAIMS, ...login },
  },
  {
    title: 'read-only',
    about: 'an image of the store, pulled and listed; pushing and deleting are off',
    serve: {},
    readOnly: true,
  },
];

interface Row {
  readonly name: string;
  readonly status: string;
}

interface Outcome {
  readonly run: Run;
  readonly rows: readonly Row[];
  /** By the suite's names of APIs and of data. */
  readonly apis: ReadonlyMap<string, string>;
}

const PASSED = 'Pass';
/** By the configuration of the run. */
const DISABLED = 'Disabled';
const binary = findBinary();
const version = versionOf(binary);
const outcomes: Outcome[] = [];
for (const run of RUNS) {
  const outcome = await conform(run);
  outcomes.push(outcome);
  console.log(`${run.title}: ${summary(outcome)}`);
  for (const { name, status } of bad(outcome)) console.log(`  ${status}: ${name}`);
}
writePage();
if (outcomes.some((outcome) => bad(outcome).length > 0)) process.exitCode = 1;

function findBinary(): string {
  const named = process.env.SKYCAP_CONFORMANCE;
  if (named !== undefined)
    return isProgram(named) ? named : stop(`SKYCAP_CONFORMANCE: ${named} is no program`);
  const goBin = process.env.GOBIN ?? join(process.env.GOPATH ?? join(homedir(), 'go'), 'bin');
  const folders = [goBin, ...(process.env.PATH ?? '').split(delimiter)];
  const find = (): string | undefined =>
    folders.map((folder) => join(folder, 'conformance')).find((path) => isProgram(path) && isTheSuite(path));
  const found = find();
  if (found !== undefined) return found;
  console.log(`go install ${MODULE}@latest`);
  const installed = spawnSync('go', ['install', `${MODULE}@latest`], { stdio: 'inherit' });
  return (
    (installed.status === 0 ? find() : undefined) ??
    stop(
      `the conformance suite is not here: install Go (1.24 or newer) and run \`go install ${MODULE}@latest\`, or name the program in SKYCAP_CONFORMANCE`,
    )
  );
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Go writes into a program what it was built from; others may have a `conformance` too. */
function isTheSuite(path: string): boolean {
  return readFileSync(path).includes(`path\t${MODULE}\n`);
}

function versionOf(path: string): string {
  const text = readFileSync(path).toString('latin1');
  return new RegExp(`mod\\t${MODULE}\\t(v[0-9A-Za-z.-]+)`).exec(text)?.[1] ?? 'of an unknown version';
}

function stop(message: string): never {
  console.error(message);
  process.exit(1);
}

async function conform(run: Run): Promise<Outcome> {
  const directory = mkdtempSync(join(tmpdir(), 'skycap-conformance-'));
  try {
    const { openStore } = await loadStore();
    await using store = await openStore({ directory: join(directory, 'store') });
    const env = {
      OCI_VERSION: '1.1',
      ...run.env,
      ...(run.readOnly === true ? await readOnlyData(store) : {}),
    };
    await using served = await serveRegistry({ store, ...run.serve });
    writeFileSync(join(directory, 'ca.pem'), TEST_CA);
    const results = join(directory, 'results');
    mkdirSync(results);
    const ran = await suite({
      PATH: process.env.PATH,
      HOME: directory,
      SSL_CERT_FILE: join(directory, 'ca.pem'),
      OCI_REGISTRY: served.host,
      OCI_TLS: run.serve.tls === undefined ? 'disabled' : 'enabled',
      OCI_RESULTS_DIR: results,
      ...env,
    });
    const outcome = { run, rows: readRows(ran.stdout), apis: readApis(ran.stdout) };
    // After a read-only run the suite falls over its own report; the results are told before that.
    if (run.readOnly !== true && ran.code !== 0 && bad(outcome).length === 0)
      stop(`${run.title}: ${ran.stderr}`);
    if (outcome.rows.length === 0) stop(`${run.title}: the suite told nothing: ${ran.stderr}`);
    return outcome;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Never blocking: the registry lives in this process. */
function suite(env: NodeJS.ProcessEnv): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(binary, [], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (part: string) => {
      stdout += part;
    });
    child.stderr.setEncoding('utf8').on('data', (part: string) => {
      stderr += part;
    });
    child.on('error', reject).on('close', (code) => resolve({ code, stdout, stderr }));
  });
}

async function readOnlyData(store: Store): Promise<Record<string, string>> {
  const transfer = { signal: new AbortController().signal, emit: () => {} };
  const image = await buildImage(
    store,
    {
      layers: [{ files: [{ path: 'etc/motd', content: 'read only' }] }],
      config: {},
      reference: 'localhost/conformance/repo1:ro',
      platform: { os: 'linux', architecture: 'amd64' },
    },
    transfer,
  );
  const blobs = image.layers.map(({ digest }) => digest);
  return {
    OCI_API_PUSH: 'false',
    OCI_API_BLOBS_DELETE: 'false',
    OCI_API_MANIFESTS_DELETE: 'false',
    OCI_API_TAGS_DELETE: 'false',
    OCI_RO_DATA_TAGS: 'ro',
    OCI_RO_DATA_MANIFESTS: image.digest,
    OCI_RO_DATA_BLOBS: blobs.join(' '),
    OCI_RO_DATA_REFERRERS: image.digest,
  };
}

/** The leaves of the tree that the suite prints. */
function readRows(text: string): readonly Row[] {
  const lines = [
    ...text.matchAll(/^( *)(OCI Conformance Test.*): (Pass|Skip|FAIL|Error|Disabled|Unknown)$/gm),
  ];
  return lines
    .filter(([, indent = ''], index) => (lines[index + 1]?.[1] ?? '').length <= indent.length)
    .map(([, , name = '', status = '']) => ({ name, status }));
}

function readApis(text: string): ReadonlyMap<string, string> {
  const start = text.indexOf('API conformance:');
  return new Map(
    [...text.slice(start).matchAll(/^ {2}(\S.*?)\.{2,}: +(\S+)$/gm)].map(([, name, status]) => [
      name as string,
      status as string,
    ]),
  );
}

function bad(outcome: Outcome): readonly Row[] {
  return outcome.rows.filter(({ status }) => status !== PASSED && status !== DISABLED);
}

function summary(outcome: Outcome): string {
  const passed = outcome.rows.filter(({ status }) => status === PASSED).length;
  const failed = bad(outcome).length;
  const disabled = outcome.rows.length - passed - failed;
  return `${passed} of ${outcome.rows.length} rows passed, ${failed} failed or skipped, ${disabled} switched off`;
}

function writePage(): void {
  const { version: own } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8')) as {
    version: string;
  };
  const part = [
    BEGIN,
    '',
    '## The built-in registry against the conformance suite of the distribution specification',
    '',
    `Skycap ${own}, ${MODULE} ${version}, ${new Date().toISOString().slice(0, 10)}. Written by \`npm run conformance\`, which fails on a row that fails or is skipped. A row is one request or check of the suite; "off" is what the run's configuration leaves out.`,
    '',
    '| run | what | passed | failed or skipped | off |',
    '|---|---|---|---|---|',
    ...outcomes.map((outcome) => {
      const passed = outcome.rows.filter(({ status }) => status === PASSED).length;
      const failed = bad(outcome).length;
      return `| ${outcome.run.title} | ${outcome.run.about} | ${passed} | ${failed} | ${outcome.rows.length - passed - failed} |`;
    }),
    '',
    'Rows passed of rows run, by part of the suite:',
    '',
    `| part | ${RUNS.map(({ title }) => title).join(' | ')} |`,
    `|---|${RUNS.map(() => '---').join('|')}|`,
    ...parts().map((name) => `| ${name} | ${outcomes.map((outcome) => count(outcome, name)).join(' | ')} |`),
    '',
    'Verdict by API and by kind of data:',
    '',
    `| API or data | ${RUNS.map(({ title }) => title).join(' | ')} |`,
    `|---|${RUNS.map(() => '---').join('|')}|`,
    ...apis().map((name) => `| ${name} | ${outcomes.map((outcome) => verdict(outcome, name)).join(' | ')} |`),
    '',
    END,
  ].join('\n');
  const page = readFileSync(PAGE, 'utf8');
  const [before, rest] = [page.slice(0, page.indexOf(BEGIN)), page.slice(page.indexOf(END) + END.length)];
  if (!page.includes(BEGIN) || !page.includes(END)) stop(`${PAGE} has no place for the results`);
  writeFileSync(PAGE, `${before}${part}${rest}`);
}

function partOf(row: Row): string {
  return row.name.split('/')[1] ?? '';
}

function parts(): readonly string[] {
  return [...new Set(outcomes.flatMap(({ rows }) => rows.map(partOf)))];
}

function apis(): readonly string[] {
  return [...new Set(outcomes.flatMap((outcome) => [...outcome.apis.keys()]))];
}

function count(outcome: Outcome, part: string): string {
  const rows = outcome.rows.filter((row) => partOf(row) === part && row.status !== DISABLED);
  return rows.length === 0 ? '–' : `${rows.filter(({ status }) => status === PASSED).length}/${rows.length}`;
}

function verdict(outcome: Outcome, api: string): string {
  const status = outcome.apis.get(api)?.toLowerCase();
  if (status === undefined || status === 'unknown') return '–';
  return status === 'disabled' ? 'off' : status;
}
