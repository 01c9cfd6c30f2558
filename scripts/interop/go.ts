import { from, type Peer, sameManifest, to, type World, weRead } from './peer.ts';

/** What a Go program was built from; the same wherever it came from. */
async function moduleVersion(
  sh: (script: string) => Promise<string>,
  name: string,
  module: string,
): Promise<string> {
  const path = await sh(`command -v ${name}`);
  return await sh(`grep -a -m1 -o -P 'mod\\t${module}\\t\\Kv[0-9A-Za-z.+-]+' ${path} | head -1`);
}

async function rootOfLayout({ shell }: World, folder: string): Promise<string> {
  const index = JSON.parse(await shell.sh(`cat ${folder}/index.json`)) as { manifests: { digest: string }[] };
  return index.manifests[0]?.digest ?? '';
}

const crane: Peer = {
  name: 'crane',
  origin: 'go',
  version: ({ sh }) => moduleVersion(sh, 'crane', 'github.com/google/go-containerregistry'),
  cannot: {},
  async exchange(fixture, world) {
    const folder = `crane-${fixture.name}`;
    const target = to(world, 'crane', fixture);
    await world.shell.sh(`crane pull --insecure --format=oci ${from(world, fixture)} ${folder}`);
    const kept = await rootOfLayout(world, folder);
    await world.shell.sh(`crane push --insecure ${folder} ${target}`);
    return {
      reads: sameManifest(fixture, kept),
      writes: sameManifest(fixture, (await weRead(world, fixture, target)).root),
    };
  },
};

const oras: Peer = {
  name: 'oras',
  origin: 'go',
  version: ({ sh }) => moduleVersion(sh, 'oras', 'oras.land/oras'),
  cannot: {},
  async exchange(fixture, world) {
    const folder = `oras-${fixture.name}`;
    const target = to(world, 'oras', fixture);
    await world.shell.sh(
      `oras copy --from-plain-http ${from(world, fixture)} --to-oci-layout ${folder}:1 >/dev/null`,
    );
    const kept = await rootOfLayout(world, folder);
    await world.shell.sh(`oras copy --from-oci-layout ${folder}:1 --to-plain-http ${target} >/dev/null`);
    return {
      reads: sameManifest(fixture, kept),
      writes: sameManifest(fixture, (await weRead(world, fixture, target)).root),
    };
  },
};

const cosign: Peer = {
  name: 'cosign',
  origin: 'go',
  version: ({ sh }) => moduleVersion(sh, 'cosign', 'github.com/sigstore/cosign/v3'),
  cannot: {},
  async exchange(fixture, world) {
    const folder = `cosign-${fixture.name}`;
    const target = to(world, 'cosign', fixture);
    await world.shell.sh(
      `cosign save --allow-http-registry --dir ${folder} ${from(world, fixture)} >/dev/null`,
    );
    const kept = await rootOfLayout(world, folder);
    await world.shell.sh(`cosign load --allow-http-registry --dir ${folder} ${target} >/dev/null`);
    return {
      reads: sameManifest(fixture, kept),
      writes: sameManifest(fixture, (await weRead(world, fixture, target)).root),
    };
  },
};

export const goPeers: readonly Peer[] = [crane, oras, cosign];
/** How to get what is missing. */
export const GO_MODULES: Readonly<Record<string, string>> = {
  crane: 'github.com/google/go-containerregistry/cmd/crane@latest',
  oras: 'oras.land/oras/cmd/oras@latest',
  cosign: 'github.com/sigstore/cosign/v3/cmd/cosign@latest',
};
