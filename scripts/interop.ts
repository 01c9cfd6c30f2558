import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadStore } from '../src/oci/index.ts';
import { serveRegistry } from '../src/oci/registry/server/index.ts';
import { type Attached, exchangeAttached } from './interop/attached.ts';
import { debianPeers } from './interop/debian.ts';
import { type Fixture, makeFixtures } from './interop/fixtures.ts';
import { GO_MODULES, goPeers } from './interop/go.ts';
import type { Cell, Compared, Peer, World } from './interop/peer.ts';
import { makeShell, type Shell } from './interop/shell.ts';

/**
 * Fixed images against other tools, both ways: what we write the peer reads, what the peer writes we read. A cell is
 * a digest that was compared. Red: a cell that differs or is empty, a peer that is not there, a reason for a cell that
 * would not need one. With all peers, it writes docs/interop.md.
 *
 *     node scripts/interop.ts [--peers all|debian|go|NAME,NAME] [--images NAME,NAME]
 */
/** What things are attached to. */
const SUBJECT = 'gzip';
const PAGE = join(import.meta.dirname, '../docs/interop.md');

interface Row {
  readonly peer: Peer;
  /** Undefined: the peer is missing. */
  readonly version: string | undefined;
  /** By the fixture's name. */
  readonly cells: ReadonlyMap<string, Outcome>;
}

type Outcome =
  | { readonly reads: Cell; readonly writes: Cell }
  | { readonly failed: string }
  | { readonly cannot: string };

const MEANING: Readonly<Record<Compared, string>> = {
  manifest: 'the manifest or index, to the byte',
  manifests: 'all manifests of an index, to the byte; the peer writes the list itself anew',
  config: 'the configuration with the digests of all unpacked layers; the peer writes the manifest anew',
  tree: 'the unpacked tree: names, kinds, owners, permissions, times, links, contents, extended attributes',
  referrers: 'all that refer to an image',
  signed: 'the manifest that a signature is accepted for, both carried to another repository by us',
};

const peers = choosePeers();
const directory = mkdtempSync(join(tmpdir(), 'io-'));
const shell = makeShell(directory);
// Nobody's logins; buildah and podman want a file where DOCKER_CONFIG points.
writeFileSync(join(directory, 'config.json'), '{}');
const { openStore } = await loadStore();
const rows: Row[] = [];
let fixtures: readonly Fixture[];
/** With oras and cosign only: what is attached to an image. */
let attached: readonly Attached[] | string = [];
{
  await using store = await openStore({ directory: join(directory, 'store') });
  await using ours = await serveRegistry({ store, writable: true });
  fixtures = await chooseFixtures(store);
  for (const peer of peers) {
    await using target = await openStore({ directory: join(directory, `of-${peer.name}`) });
    await using empty = await serveRegistry({ store: target, writable: true });
    rows.push(await row(peer, { shell, store, ours, empty }));
  }
  if (
    ['oras', 'cosign'].every((name) =>
      rows.some(({ peer, version }) => peer.name === name && version !== undefined),
    )
  ) {
    await using target = await openStore({ directory: join(directory, 'attached') });
    await using empty = await serveRegistry({ store: target, writable: true });
    attached = await attachments({ shell, store, ours, empty });
  }
}
// Paths as long as they can be: rm walks from within.
await shell.sh(`rm -rf ${directory}`);
const red = [...rows.flatMap(problems), ...attachedProblems()];
for (const problem of red) console.error(`RED ${problem}`);
console.log(
  `${rows.length} peers, ${fixtures.length} images, ${counted()} digests compared, ${red.length} red`,
);
if (argument('--peers') === undefined && argument('--images') === undefined) {
  writePage();
  console.log(`wrote ${PAGE}`);
}
if (red.length > 0) process.exitCode = 1;

function argument(name: string): string | undefined {
  const at = process.argv.indexOf(name);
  return at === -1 ? undefined : process.argv[at + 1];
}

function choosePeers(): readonly Peer[] {
  const all = [...debianPeers, ...goPeers];
  const wanted = argument('--peers') ?? 'all';
  if (wanted === 'all') return all;
  const names = wanted.split(',');
  const chosen = all.filter(({ name, origin }) => names.includes(name) || names.includes(origin));
  const unknown = names.filter((name) => !all.some((peer) => peer.name === name || peer.origin === name));
  if (unknown.length === 0) return chosen;
  console.error(`no peer ${unknown.join(', ')}: all, debian, go, ${all.map(({ name }) => name).join(', ')}`);
  process.exit(2);
}

async function chooseFixtures(store: World['store']): Promise<readonly Fixture[]> {
  const all = await makeFixtures(store);
  const wanted = argument('--images')?.split(',');
  return wanted === undefined ? all : all.filter(({ name }) => wanted.includes(name));
}

async function row(peer: Peer, world: World): Promise<Row> {
  const version = await versionOf(peer, world.shell);
  const cells = new Map<string, Outcome>();
  if (version === undefined) return { peer, version, cells };
  for (const fixture of fixtures) {
    const cannot = peer.cannot[fixture.name];
    const outcome = cannot === undefined ? await exchange(peer, fixture, world) : { cannot };
    cells.set(fixture.name, outcome);
    console.log(`${peer.name} ${fixture.name}: ${told(outcome)}`);
  }
  await peer.end?.(world);
  return { peer, version, cells };
}

async function versionOf(peer: Peer, in_: Shell): Promise<string | undefined> {
  try {
    const version = await peer.version(in_);
    return version === '' ? undefined : version;
  } catch {
    return undefined;
  }
}

async function exchange(peer: Peer, fixture: Fixture, world: World): Promise<Outcome> {
  try {
    return await peer.exchange(fixture, world);
  } catch (error) {
    return { failed: error instanceof Error ? error.message : String(error) };
  }
}

async function attachments(world: World): Promise<readonly Attached[] | string> {
  const subject = fixtures.find(({ name }) => name === SUBJECT);
  if (subject === undefined) return [];
  try {
    return await exchangeAttached(world, subject);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function attachedProblems(): readonly string[] {
  if (typeof attached === 'string') return [`attached: ${attached}`];
  const asked =
    rows.some(({ peer }) => peer.name === 'cosign') && fixtures.some(({ name }) => name === SUBJECT);
  if (asked && attached.length !== 4) return [`attached: ${attached.length} of 4 cells`];
  return attached.flatMap(({ peer, registry, reads, writes }) =>
    [reads, writes]
      .filter((cell) => !isSame(cell))
      .map((cell) => `${peer} at ${registry}: ${cellText(cell)}`),
  );
}

function told(outcome: Outcome): string {
  if ('cannot' in outcome) return `– (${outcome.cannot})`;
  if ('failed' in outcome) return `FAILED ${outcome.failed}`;
  return `reads ${cellText(outcome.reads)}, writes ${cellText(outcome.writes)}`;
}

function isSame(cell: Cell): boolean {
  return cell.found === cell.wanted && cell.found !== undefined && /^sha256:[a-f0-9]{64}$/.test(cell.found);
}

function cellText(cell: Cell): string {
  const short = (digest: string): string => digest.slice('sha256:'.length, 'sha256:'.length + 8);
  const text = `${cell.compared} ${short(cell.found)}`;
  return isSame(cell) ? text : `${text} is not ${short(cell.wanted)}`;
}

function problems({ peer, version, cells }: Row): readonly string[] {
  if (version === undefined) {
    const module = GO_MODULES[peer.name];
    return [
      `${peer.name} is not there: ${module === undefined ? `apt-get install ${peer.name}` : `go install ${module}, and put it on the PATH`}`,
    ];
  }
  const stale = Object.keys(peer.cannot).filter((name) => !knownFixtures().includes(name));
  return [
    ...stale.map((name) => `${peer.name}: a reason for ${name}, which is no image`),
    ...fixtures.flatMap(({ name }) => {
      const outcome = cells.get(name);
      if (outcome === undefined) return [`${peer.name} ${name}: empty`];
      if ('cannot' in outcome) return [];
      if ('failed' in outcome) return [`${peer.name} ${name}: ${outcome.failed}`];
      return Object.entries(outcome)
        .filter(([, cell]) => !isSame(cell))
        .map(([way, cell]) => `${peer.name} ${way} ${name}: ${cellText(cell)}`);
    }),
  ];
}

function knownFixtures(): readonly string[] {
  return [
    ...fixtures.map(({ name }) => name),
    ...(argument('--images') === undefined
      ? []
      : Object.keys(Object.assign({}, ...peers.map(({ cannot }) => cannot)))),
  ];
}

function counted(): number {
  const cells = rows.flatMap((one) => [...one.cells.values()].filter((cell) => 'reads' in cell)).length;
  return (cells + (typeof attached === 'string' ? 0 : attached.length)) * 2;
}

function writePage(): void {
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8')) as {
    version: string;
  };
  const date = new Date().toISOString().slice(0, 10);
  const table = [
    `| | ${rows.map(({ peer, version: theirs }) => `${peer.name} ${theirs ?? 'missing'}`).join(' | ')} |`,
    `|---|${rows.map(() => '---').join('|')}|`,
    ...fixtures.map(
      ({ name }) => `| ${name} | ${rows.map(({ cells }) => pageCell(cells.get(name))).join(' | ')} |`,
    ),
  ];
  const reasons = rows.flatMap(({ peer }) =>
    Object.entries(peer.cannot).map(([image, why]) => `| ${peer.name} | ${image} | ${why} |`),
  );
  writeFileSync(
    PAGE,
    [
      '# Interop',
      '',
      `Skycap ${version}, ${date}. Written by \`npm run interop\`, which fails on a digest that differs, an empty cell or a peer that is missing (\`node scripts/interop.ts --peers debian\` asks those of Debian alone, and writes nothing).`,
      '',
      'Fixed images, both ways. Above: what the peer has read of what we wrote. Below: what we have read of what it wrote, every blob checked and every layer unpacked. Each is a digest, compared with that of the image, and says of what:',
      '',
      ...Object.entries(MEANING).map(([compared, meaning]) => `- _${compared}_: ${meaning}`),
      '',
      ...table,
      '',
      'What refers to an image. Above: what the peer has read of what we attached or carried. Below: what we have read of what it attached.',
      '',
      '| peer | at the built-in registry | at docker-registry, which lists none: by the fallback tag |',
      '|---|---|---|',
      ...['oras', 'cosign'].map(
        (name) =>
          `| ${name} | ${attachedOf(name)
            .map((one) => pageCell(one))
            .join(' | ')} |`,
      ),
      '',
      'The images:',
      '',
      ...fixtures.map(({ name, about }) => `- **${name}**: ${about}`),
      '',
      'What a peer cannot do by its nature; nothing else may be left out:',
      '',
      '| peer | image | because it |',
      '|---|---|---|',
      ...reasons,
      '',
    ].join('\n'),
  );
}

function attachedOf(name: string): readonly (Attached | undefined)[] {
  const ones = typeof attached === 'string' ? [] : attached.filter(({ peer }) => peer === name);
  return [ones[0], ones[1]];
}

function pageCell(outcome: Outcome | undefined): string {
  if (outcome === undefined) return 'EMPTY';
  if ('cannot' in outcome) return 'cannot';
  if ('failed' in outcome) return 'FAILED';
  return `${cellText(outcome.reads)}<br>${cellText(outcome.writes)}`;
}
