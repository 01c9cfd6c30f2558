import { loadImages, loadRegistryClient, loadStore } from '../../src/oci/index.ts';
import { digestOf } from '../../src/oci/names/index.ts';
import { serveRegistry } from '../../src/oci/registry/server/index.ts';
import { debianRegistry, type RunningRegistry } from '../../src/testkit/registry/debian-registry.ts';
import { type Fixture, nameOf } from './fixtures.ts';
import { from, type Peer, sameConfigs, sameManifest, sameManifests, to, type World, weRead } from './peer.ts';
import { fetchAll } from './read-back.ts';
import { ownTree, pinnedOf, treeDigest } from './tree.ts';

const transfer = { signal: new AbortController().signal, emit: () => {} };
const PLAIN = '--tls-verify=false';
const NO_IMAGE = 'keeps container images only: an artifact has no configuration of one';

let registry: RunningRegistry | undefined;

const dockerRegistry: Peer = {
  name: 'docker-registry',
  origin: 'debian',
  version: async ({ sh }) => (await sh('docker-registry --version')).split(' ').at(-1) as string,
  cannot: {},
  async exchange(fixture, world) {
    registry ??= await debianRegistry({ kind: 'open' });
    const name = `${registry.host}/fixed/${fixture.name}:1`;
    const { pushImage } = await loadImages();
    const { createRegistryClient } = await loadRegistryClient();
    await using client = createRegistryClient();
    await pushImage(client, world.store, nameOf(fixture.name), { ...transfer, target: name });
    const answer = await fetch(`http://${registry.host}/v2/fixed/${fixture.name}/manifests/1`, {
      headers: {
        accept:
          '*/*, application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json',
      },
    });
    const kept = digestOf(Buffer.from(await answer.arrayBuffer()));
    return {
      reads: sameManifest(fixture, kept),
      writes: sameManifest(fixture, (await weRead(world, fixture, name)).root),
    };
  },
  async end() {
    await registry?.[Symbol.asyncDispose]();
    registry = undefined;
  },
};

const skopeo: Peer = {
  name: 'skopeo',
  origin: 'debian',
  version: async ({ sh }) => (await sh('skopeo --version')).split(' ').at(-1) as string,
  cannot: {},
  async exchange(fixture, world) {
    const { sh } = world.shell;
    const folder = `skopeo-${fixture.name}`;
    const copy = 'skopeo copy -q --all --preserve-digests --src-tls-verify=false --dest-tls-verify=false';
    await sh(`${copy} docker://${from(world, fixture)} dir:${folder}`);
    const kept = (await sh(`sha256sum ${folder}/manifest.json`)).split(' ')[0];
    const target = to(world, 'skopeo', fixture);
    await sh(`${copy} dir:${folder} docker://${target}`);
    return {
      reads: sameManifest(fixture, `sha256:${kept}`),
      writes: sameManifest(fixture, (await weRead(world, fixture, target)).root),
    };
  },
};

/** buildah and podman keep layers unpacked and write manifests of their own; the configuration stays as it was. */
function containersStorage(name: 'buildah' | 'podman'): Peer {
  // Short, because a layer of 4,000 bytes of path is read under its absolute path.
  const folder = `$PWD/${name[0]}`;
  const run = `${name} --root ${folder} --runroot ${folder}-run --storage-driver vfs`;
  const digestFormat =
    name === 'buildah'
      ? "inspect --type image --format '{{.FromImageDigest}}'"
      : "image inspect --format '{{.Digest}}'";
  return {
    name,
    origin: 'debian',
    version: async ({ sh }) =>
      /\d+\.\d+\.\d+/.exec(await sh(`${name} --version`))?.[0] ?? 'of an unknown version',
    cannot: { artifact: NO_IMAGE },
    async exchange(fixture, world) {
      const { sh } = world.shell;
      const source = from(world, fixture);
      const target = to(world, name, fixture);
      if (fixture.manifests.length > 0) {
        await sh(`${run} manifest create list >/dev/null`);
        await sh(`${run} manifest add --all ${PLAIN} list docker://${source} >/dev/null`);
        const list = JSON.parse(await sh(`${run} manifest inspect list`)) as {
          manifests: { digest: string }[];
        };
        await sh(`${run} manifest push -q --all ${PLAIN} list docker://${target} >/dev/null`);
        return {
          reads: sameManifests(
            fixture,
            list.manifests.map(({ digest }) => digest),
          ),
          writes: sameManifests(fixture, (await weRead(world, fixture, target)).manifests),
        };
      }
      await sh(`${run} pull -q ${PLAIN} docker://${source} >/dev/null`);
      const kept = await sh(`${run} ${digestFormat} ${source}`);
      await sh(`${run} push -q ${PLAIN} ${source} docker://${target}`);
      return {
        reads: sameManifest(fixture, kept),
        writes: sameConfigs(fixture, (await weRead(world, fixture, target)).configs),
      };
    },
  };
}

const umoci: Peer = {
  name: 'umoci',
  origin: 'debian',
  version: async ({ sh }) => (await sh('umoci --version')).split(' ').at(-1) as string,
  cannot: {
    artifact: NO_IMAGE,
    schema2: 'knows OCI media types only',
    zstd: 'knows gzip and plain layers only',
    index: 'knows no list of platforms',
  },
  async exchange(fixture, world) {
    const { shell } = world;
    const { sh } = shell;
    const { openStore } = await loadStore();
    const { createRegistryClient } = await loadRegistryClient();
    const folder = `umoci-${fixture.name}`;
    await using client = createRegistryClient();
    await using layout = await openStore({ directory: `${shell.directory}/${folder}` });
    const name = from(world, fixture);
    await fetchAll(client, layout, name);
    const wanted = await ownTree(shell, layout, await pinnedOf(layout, name, fixture.name));
    await sh(`umoci unpack --image ${folder}:${name} ${folder}-in`);
    const unpacked = await treeDigest(shell, `${folder}-in/rootfs`);
    // One layer of all that it unpacked, in a layout of its own.
    const written = 'localhost/written:1';
    await sh(`umoci init --layout ${folder}-out; umoci new --image ${folder}-out:${written}
      umoci unpack --image ${folder}-out:${written} ${folder}-new
      cp -a ${folder}-in/rootfs/. ${folder}-new/rootfs/
      umoci repack --image ${folder}-out:${written} ${folder}-new`);
    await using theirs = await openStore({ directory: `${shell.directory}/${folder}-out` });
    await using served = await serveRegistry({ store: theirs });
    const read = `${shell.directory}/${folder}-read`;
    await using store = await openStore({ directory: read });
    await fetchAll(client, store, `${served.host}/written:1`);
    const found = await ownTree(
      shell,
      store,
      await pinnedOf(store, `${served.host}/written:1`, fixture.name),
    );
    return {
      reads: { compared: 'tree', found: unpacked, wanted },
      writes: { compared: 'tree', found, wanted },
    };
  },
};

const docker: Peer = {
  name: 'docker',
  origin: 'debian',
  version: async ({ sh }) =>
    await sh("docker version --format '{{.Server.Version}} (command line {{.Client.Version}})'"),
  cannot: { artifact: NO_IMAGE, zstd: 'knows gzip and plain layers only (20.10)' },
  async exchange(fixture, world) {
    const { sh } = world.shell;
    const source = from(world, fixture);
    const target = to(world, 'docker', fixture);
    await sh(`docker pull -q ${source}`);
    try {
      const kept = await sh(
        `docker image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' ${source} | grep ^${source.replace(/:1$/, '')}@ | cut -d@ -f2`,
      );
      const reads = sameManifest(fixture, kept);
      if (fixture.manifests.length > 0) return { reads, writes: await dockerList(fixture, world) };
      await sh(`docker tag ${source} ${target}; docker push -q ${target}`);
      return { reads, writes: sameConfigs(fixture, (await weRead(world, fixture, target)).configs) };
    } finally {
      await sh(`docker rmi ${source} ${target} >/dev/null 2>&1 || true`);
    }
  },
};

/** The engine keeps one platform; lists are made by the command line, of manifests in the same registry. */
async function dockerList(
  fixture: Fixture,
  world: World,
): Promise<Awaited<ReturnType<typeof sameManifests>>> {
  const { sh } = world.shell;
  const target = `${world.ours.host}/docker/${fixture.name}:1`;
  const repository = from(world, fixture).replace(/:1$/, '');
  const children = fixture.manifests.map((digest) => `${repository}@${digest}`).join(' ');
  await sh(
    `docker manifest create --insecure ${target} ${children}; docker manifest push --insecure -p ${target}`,
  );
  return sameManifests(fixture, (await weRead(world, fixture, target)).manifests);
}

export const debianPeers: readonly Peer[] = [
  dockerRegistry,
  skopeo,
  containersStorage('buildah'),
  containersStorage('podman'),
  umoci,
  docker,
];
