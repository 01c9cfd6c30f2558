import type { Digest, ServedRegistry, Store } from '../../src/oci/index.ts';
import type { Fixture } from './fixtures.ts';
import { digestOfAll, readBack, type Seen } from './read-back.ts';
import type { Shell } from './shell.ts';

/** What a cell compares: the manifest to the byte, or what a peer keeps where it writes manifests of its own. */
export type Compared = 'manifest' | 'manifests' | 'config' | 'tree' | 'referrers' | 'signed';

export interface Cell {
  readonly compared: Compared;
  readonly found: Digest;
  readonly wanted: Digest;
}

export interface World {
  readonly shell: Shell;
  /** The fixed images. */
  readonly store: Store;
  /** Our registry, with the fixed images under `fixed/NAME:1`. */
  readonly ours: ServedRegistry;
  /** Our registry again, over an empty store for each peer: everything has to be pushed. */
  readonly empty: ServedRegistry;
}

export interface Peer {
  readonly name: string;
  readonly origin: 'debian' | 'go';
  /** Throws where the peer is not there. */
  version(shell: Shell): Promise<string>;
  /** What cannot be asked of it, by its nature, with the reason. By the fixture's name. */
  readonly cannot: Readonly<Record<string, string>>;
  /** Both ways for one image: `reads` what we wrote, `writes` what we read. */
  exchange(fixture: Fixture, world: World): Promise<Exchange>;
  end?(world: World): Promise<void>;
}

export interface Exchange {
  readonly reads: Cell;
  readonly writes: Cell;
}

export const from = ({ ours }: World, { name }: Fixture): string => `${ours.host}/fixed/${name}:1`;
export const to = ({ empty }: World, peer: string, { name }: Fixture): string =>
  `${empty.host}/${peer}/${name}:1`;

export const sameManifest = (fixture: Fixture, found: string): Cell => ({
  compared: 'manifest',
  found: found as Digest,
  wanted: fixture.root,
});

export const sameConfigs = (fixture: Fixture, found: readonly string[]): Cell => ({
  compared: 'config',
  found: digestOfAll(found),
  wanted: digestOfAll(fixture.configs),
});

/** The manifests of an index whose list a peer writes anew. */
export const sameManifests = (fixture: Fixture, found: readonly string[]): Cell => ({
  compared: 'manifests',
  found: digestOfAll(found),
  wanted: digestOfAll(fixture.manifests),
});

/** What our client and our unpacking find of what a peer has written. */
export async function weRead(world: World, fixture: Fixture, name: string): Promise<Seen> {
  const folder = await world.shell.sh('mktemp -d read-XXXXXX');
  return await readBack(name, `${world.shell.directory}/${folder}`, fixture.platforms);
}
