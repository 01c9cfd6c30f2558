import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ActionWorld, makeActionWorld } from '../../src/installation/action.fixture.ts';
import { enginesToTest } from '../support/engines.ts';
import { fakeImage, normalized, type Recorded, recorded } from '../support/golden.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

/** Recorded on crun by `SKYCAP_RECORD=1`; the same files hold for every engine. */
function golden({ name }: Recorded, events: readonly object[], record: boolean): void {
  const file = join(import.meta.dirname, '../data/events', `${name}.ndjson`);
  const text = normalized(events);
  if (record && process.env.SKYCAP_RECORD === '1') writeFileSync(file, text);
  expect(existsSync(file), file).toBe(true);
  expect(text).toBe(readFileSync(file, 'utf8'));
}

const head = (image: string): string =>
  `name: shop\nversion: 1.0.0\ninvocationImages:\n  - {name: tools, image: "${image}"}\n`;

describe.each(enginesToTest('oci-runtime', 'docker'))('the events of a run on %s', (engine) => {
  let world: World;
  let image: string;
  beforeAll(async () => {
    world = await makeWorld(engine);
    image = await world.image('tools:1');
  });
  afterAll(() => world[Symbol.asyncDispose]());

  it.each(recorded)('$name are as recorded', async (one) => {
    const cwd = world.bundle({ 'porter.yaml': head(image) + one.text });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    const ran = await world.skycap(['install', one.name, '--progress', 'json'], { cwd });
    expectCode(ran, one.exitCode);
    golden(one, ran.events, engine === 'oci-runtime');
  });
});

describe('the events of a run on the fake engine', () => {
  let world: ActionWorld;
  beforeAll(async () => {
    world = await makeActionWorld();
  });
  afterAll(() => world[Symbol.asyncDispose]());

  it.each(recorded)('$name are as recorded', async (one) => {
    const { events } = await world.run(world.bundle(one.text), 'install', {
      image: fakeImage(one),
      key: { namespace: '', name: one.name },
    });
    golden(one, events, false);
  });
});
