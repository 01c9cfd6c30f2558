import { globSync } from 'node:fs';

/** What is mutated, and who judges: the room's own tests, and of those that need root and peers the ones named here. */
export interface Room {
  readonly source: string;
  readonly live: readonly string[];
}

export const rooms: Readonly<Record<string, Room>> = {
  registry: { source: 'src/oci/registry', live: [] },
  layer: { source: 'src/oci/layer', live: ['src/oci/layer/unpack.live.test.ts'] },
  store: { source: 'src/oci/store', live: [] },
};

export function testsOf(room: Room): readonly string[] {
  const beside = globSync(`${room.source}/**/*.test.ts`).filter((path) => !path.endsWith('.live.test.ts'));
  return [...beside.sort(), ...room.live];
}
