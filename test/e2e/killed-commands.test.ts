import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lacking } from '../../src/testkit/programs.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

const lacks = lacking('killed commands', { busybox: 'busybox-static' });

describe.skipIf(lacks)('commands that are killed with -9', () => {
  let world: World;
  let image: string;

  beforeAll(async () => {
    // No container runs here: any engine will do.
    world = await makeWorld('oci-runtime');
    image = await world.image('tools:1');
  });
  afterAll(() => world[Symbol.asyncDispose]());

  const killedAt = async (moment: string, args: readonly string[], cwd?: string): Promise<void> => {
    const at = { env: { SKYCAP_FAILPOINT: moment }, ...(cwd === undefined ? {} : { cwd }) };
    expect((await world.skycap(args, at)).signal).toBe('SIGKILL');
  };

  it.each(['lock.written', 'lock.renamed'])(
    'lock at %s: after the next one there is the lock, and nothing beside it',
    async (moment) => {
      const cwd = world.bundle({
        'porter.yaml': `name: killed
version: 1.0.0
invocationImages:
  - {name: tools, image: "${image}"}
install:
  - description: Work
    invoke: {name: tools, action: {command: ["true"]}}
`,
      });
      await killedAt(moment, ['lock'], cwd);
      // What it was writing, or has written, and its turn.
      expect(readdirSync(cwd)).toHaveLength(3);

      expectCode(await world.skycap(['lock'], { cwd }), 0);

      expect(readdirSync(cwd).sort()).toEqual(['porter.lock', 'porter.yaml']);
      expectCode(await world.skycap(['lock', '--check'], { cwd }), 0);
    },
  );

  it.each(['prune.leases', 'prune.blob', 'prune.trash'])(
    'image prune at %s: the next one ends what it began, and the store is whole',
    async (moment) => {
      const store = join(world.env.XDG_DATA_HOME as string, 'skycap', 'store');
      const prune = ['image', 'prune', '--older-than', '0s'];
      expectCode(await world.skycap(['image', 'pull', image]), 0);
      expectCode(await world.skycap(['image', 'rm', image]), 0);
      await killedAt(moment, prune);

      expectCode(await world.skycap(prune), 0);

      expectCode(await world.skycap(['image', 'fsck']), 0);
      for (const folder of ['blobs/sha256', 'ingest', 'layers', 'leases', 'trash'])
        expect(readdirSync(join(store, folder)), folder).toEqual([]);
    },
  );
});
