import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

const bundle = (image: string) => `name: keep
version: 1.0.0
invocationImages:
  - {name: tools, image: "${image}", network: none}
customActions:
  fail: {modifies: true}
  wait: {modifies: false}
install:
  - description: Work
    invoke: {name: tools, action: {command: [/bin/true]}}
upgrade:
  - description: Work
    invoke: {name: tools, action: {command: [/bin/true]}}
wait:
  - description: Wait
    invoke: {name: tools, action: {command: [sh, -c, "echo waiting; sleep 600"]}}
fail:
  - description: Fail
    invoke: {name: tools, action: {command: [/bin/false]}}
`;

describe.each(enginesToTest('oci-runtime'))('what a run needs, on %s', (engine) => {
  let world: World;
  let cwd: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    cwd = world.bundle({ 'porter.yaml': bundle(await world.image('tools:1')) });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    expectCode(await world.skycap(['install', 'keep'], { cwd }), 0);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  const prune = async () =>
    expectCode(await world.skycap(['image', 'prune', '--older-than', '0s', '-o', 'json']), 0).json();
  const names = async (): Promise<readonly string[]> =>
    expectCode(await world.skycap(['image', 'list', '-o', 'json']), 0)
      .json<{ reference: string }[]>()
      .map((image) => image.reference);
  const nothing = { blobs: 0, layers: 0 };

  it('K5 what a lock pins survives a prune, and is not asked for again', async () => {
    expect(await names()).toEqual([expect.stringMatching(/tools@sha256:/)]);
    expect(await prune()).toMatchObject(nothing);
    const asked = world.requests.length;
    expectCode(await world.skycap(['upgrade', 'keep'], { cwd }), 0);
    expect(world.requests).toHaveLength(asked);
  });

  it('K5 a run gives what it finds without a name its name again', async () => {
    const before = await names();
    expectCode(await world.skycap(['image', 'rm', ...before]), 0);
    expect(await names()).toEqual([]);
    const asked = world.requests.length;
    expectCode(await world.skycap(['upgrade', 'keep'], { cwd }), 0);
    expect(world.requests).toHaveLength(asked);
    expect(await names()).toEqual(before);
  });

  it('K1 what a run stands on stays while it runs', async () => {
    const running = world.start(['invoke', 'keep', '--action', 'wait', '--progress', 'json'], { cwd });
    await running.said('"waiting');
    expectCode(await world.skycap(['image', 'rm', ...(await names())]), 0);
    expect(await prune()).toMatchObject(nothing);
    expect(readdirSync(join(world.directory, 'data/skycap/store/layers'))).not.toEqual([]);
    running.process.kill('SIGINT');
    expectCode(await running.ended, 130);
    // Without a name and a run it is nobody's: the next run finds it only because nothing pruned it yet.
    expectCode(await world.skycap(['upgrade', 'keep'], { cwd }), 0);
    expect(await names()).toHaveLength(1);
  });

  it('K1 what a kept container stands on stays until the next run', async () => {
    expectCode(await world.skycap(['invoke', 'keep', '--action', 'fail', '--keep'], { cwd }), 50);
    expectCode(await world.skycap(['image', 'rm', ...(await names())]), 0);
    expect(await prune()).toMatchObject(nothing);
    expect(readdirSync(join(world.directory, 'data/skycap/store/layers'))).not.toEqual([]);
    // The next run ends what the failed one kept; its own image has a name, until that is removed.
    expectCode(await world.skycap(['upgrade', 'keep'], { cwd }), 0);
    expect(await prune()).toMatchObject(nothing);
    expectCode(await world.skycap(['image', 'rm', ...(await names())]), 0);
    expect(await prune()).toMatchObject({ blobs: 3, layers: 1 });
  });
});
