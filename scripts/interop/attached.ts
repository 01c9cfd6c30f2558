import {
  type Digest,
  loadImages,
  loadRegistryClient,
  loadStore,
  type Reference,
} from '../../src/oci/index.ts';
import { digestOf, parseReference } from '../../src/oci/names/index.ts';
import { debianRegistry } from '../../src/testkit/registry/debian-registry.ts';
import { type Fixture, nameOf } from './fixtures.ts';
import type { Cell, World } from './peer.ts';
import { digestOfAll, fetchAll } from './read-back.ts';

/** Signatures and other artifacts that refer to an image, where a registry lists them and where a tag has to do. */
export interface Attached {
  readonly peer: string;
  readonly registry: string;
  readonly reads: Cell;
  readonly writes: Cell;
}

type Client = ReturnType<Awaited<ReturnType<typeof loadRegistryClient>>['createRegistryClient']>;

interface Place {
  readonly world: World;
  readonly client: Client;
  readonly host: string;
  readonly subject: Fixture;
}

const transfer = { signal: new AbortController().signal, emit: () => {} };
const IMAGE = 'application/vnd.oci.image.manifest.v1+json';

export async function exchangeAttached(world: World, subject: Fixture): Promise<readonly Attached[]> {
  const { createRegistryClient } = await loadRegistryClient();
  await using client = createRegistryClient();
  await using debian = await debianRegistry({ kind: 'open' });
  const found: Attached[] = [];
  for (const [registry, host] of [
    ['the built-in registry', world.empty.host],
    ['docker-registry, by the fallback tag', debian.host],
  ] as const) {
    const place = { world, client, host, subject };
    found.push({ peer: 'oras', registry, ...(await withOras(place)) });
    found.push({ peer: 'cosign', registry, ...(await withCosign(place)) });
  }
  return found;
}

/** Gives a repository the subject; returns its reference by digest. */
async function place({ client, world, host, subject }: Place, repository: string): Promise<Reference> {
  const { pushImage } = await loadImages();
  const target = `${host}/attached/${repository}:1`;
  await pushImage(client, world.store, nameOf(subject.name), { ...transfer, target });
  return parseReference(`${host}/attached/${repository}@${subject.root}`);
}

const same = (found: readonly string[], wanted: readonly string[]): Cell => ({
  compared: 'referrers',
  found: digestOfAll(found),
  wanted: digestOfAll(wanted),
});

const text = ({ registry, repository, digest }: Reference): string => `${registry}/${repository}@${digest}`;

async function weList({ client }: Place, at: Reference): Promise<readonly Digest[]> {
  return (await client.listReferrers(at, transfer)).map(({ digest }) => digest);
}

async function orasLists({ world }: Place, at: Reference): Promise<readonly string[]> {
  const listed = await world.shell.sh(`oras discover --plain-http --depth 1 --format json ${text(at)}`);
  const { referrers } = JSON.parse(listed) as { referrers: { digest: string }[] };
  return referrers.map(({ digest }) => digest);
}

async function withOras(where: Place): Promise<Pick<Attached, 'reads' | 'writes'>> {
  const at = await place(where, 'oras');
  const { sh } = where.world.shell;
  await sh('echo note > note.txt');
  const said = await sh(
    `oras attach --plain-http --artifact-type application/vnd.example.note.v1 ${text(at)} note.txt`,
  );
  const theirs = /^Digest: (sha256:[a-f0-9]{64})$/m.exec(said)?.[1] ?? '';
  const writes = same(await weList(where, at), [theirs]);
  const ours = await weAttach(where, at);
  return { writes, reads: same(await orasLists(where, at), [theirs, ours]) };
}

async function weAttach({ client, subject }: Place, at: Reference): Promise<Digest> {
  const config = { mediaType: 'application/vnd.oci.empty.v1+json', digest: digestOf('{}'), size: 2 };
  await client.putBlob(at, config, (offset) => one(Buffer.from('{}').subarray(offset)), transfer);
  const manifest = await client.headManifest(at, transfer);
  const bytes = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: IMAGE,
      artifactType: 'application/vnd.example.note.v1',
      config,
      layers: [],
      subject: { mediaType: manifest?.mediaType, digest: subject.root, size: manifest?.size },
    }),
  );
  const digest = digestOf(bytes);
  const descriptor = { mediaType: IMAGE, digest, size: bytes.length };
  await client.putManifest({ ...at, digest }, { descriptor, bytes }, transfer);
  return digest;
}

/** Cosign signs and we list; we carry image and signature to another repository and cosign accepts them there. */
async function withCosign(where: Place): Promise<Pick<Attached, 'reads' | 'writes'>> {
  const { client, world, host, subject } = where;
  const { sh, directory } = world.shell;
  const at = await place(where, 'cosign');
  const env = { COSIGN_PASSWORD: '' };
  await sh('test -e cosign.key || cosign generate-key-pair 2>/dev/null', env);
  await sh(
    `cosign sign --key cosign.key --allow-http-registry --use-signing-config=false --tlog-upload=false --yes ${text(at)} 2>&1`,
    env,
  );
  const signatures = await weList(where, at);
  const writes = same(signatures, await orasLists(where, at));
  const { openStore } = await loadStore();
  const { pushImage } = await loadImages();
  await using store = await openStore({ directory: `${directory}/${await sh('mktemp -d signed-XXXX')}` });
  const copied = await place(where, 'copied');
  for (const digest of signatures) {
    const name = text({ ...at, digest });
    await fetchAll(client, store, name);
    await pushImage(client, store, name, { ...transfer, target: text({ ...copied, digest }) });
  }
  const verified = JSON.parse(
    await sh(
      `cosign verify --key cosign.pub --allow-http-registry --insecure-ignore-tlog ${host}/attached/copied@${subject.root} 2>/dev/null`,
    ),
  ) as { critical: { image: Record<string, string> } }[];
  const accepted = verified.map(({ critical }) => critical.image['docker-manifest-digest'] ?? '');
  return { writes, reads: { ...same(accepted, [subject.root]), compared: 'signed' } };
}

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
