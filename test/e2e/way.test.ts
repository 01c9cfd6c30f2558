import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

describe.each(enginesToTest('oci-runtime', 'docker'))('the straight way on %s', (engine) => {
  let world: World;
  let tools: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    tools = await world.image('acme/tools:1');
  });
  afterAll(() => world[Symbol.asyncDispose]());

  it('locks, installs, shows outputs, upgrades and uninstalls', async () => {
    const cwd = world.bundle({
      'porter.yaml': `name: shop
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"}
parameters:
  - {name: region, type: string, default: eu}
outputs:
  - {name: url, type: string, sensitive: false}
install:
  - description: Apply
    id: apply
    invoke:
      name: tools
      action:
        run: |
          echo "applying in \${ bundle.parameters.region }"
          echo state >> state.txt
          printf 'http://%s' \${ bundle.parameters.region } > /cnab/app/outputs/url
upgrade:
  - description: Again
    invoke: {name: tools, action: {command: [sh, -c, 'cat state.txt; echo more >> state.txt']}}
uninstall:
  - description: Away
    invoke: {name: tools, action: {command: [cat, state.txt]}}
`,
    });

    expectCode(await world.skycap(['lock'], { cwd }), 0);
    const installed = expectCode(await world.skycap(['install', '--param', 'region=us'], { cwd }), 0);
    expect(installed.stderr).toContain('applying in us');
    expect((await world.skycap(['output', 'show', 'url', '-i', 'shop'], { cwd })).stdout.trim()).toBe(
      'http://us',
    );
    expectCode(await world.skycap(['upgrade'], { cwd }), 0);
    const gone = expectCode(await world.skycap(['uninstall'], { cwd }), 0);
    expect(gone.stderr).toMatch(/state[\s\S]*more/);
  });
});
