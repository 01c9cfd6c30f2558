import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { type DaemonLie, dockerProxy } from '../support/docker-proxy.ts';
import { enginesToTest } from '../support/engines.ts';
import { expectRefused, type Refusal } from '../support/refused.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

/** What the daemon says, and what that ends in. */
const cases: readonly (Refusal & {
  readonly lies: readonly DaemonLie[];
  readonly args?: readonly string[];
})[] = [
  {
    code: 'ENGINE_DOCKER_FAILED',
    exit: 41,
    lies: [
      { method: 'POST', path: /^\/containers\/create$/, status: 500, body: '{"message":"out of order"}' },
    ],
    says: ['out of order', 'status 500'],
  },
  {
    code: 'ENGINE_DOCKER_IMAGE',
    exit: 41,
    lies: [
      { method: 'GET', path: /^\/images\/sha256:[0-9a-f]+\/json$/, status: 404, body: '{"message":"none"}' },
      { method: 'POST', path: /^\/images\/create$/, status: 404, body: '{"message":"not there"}' },
    ],
    says: ['acme/tools:1'],
  },
  {
    code: 'ENGINE_DOCKER_SECRET_PLACE',
    exit: 42,
    lies: [
      {
        method: 'GET',
        path: /^\/containers\/skycap-probe-[^/]+\/archive$/,
        status: 404,
        body: '{"message":"none"}',
      },
    ],
    args: ['--credential=token=env:HOME'],
    says: ['/cnab/app/keys/token'],
  },
];

describe.each(enginesToTest('docker'))('a daemon that fails, on %s', (engine) => {
  let world: World;
  let cwd: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    const tools = await world.image('acme/tools:1');
    cwd = world.bundle({
      'porter.yaml': `name: failing
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"}
credentials:
  - {name: token, path: /cnab/app/keys/token, required: false}
customActions:
  look: {description: x, stateless: true, modifies: false}
look:
  - description: x
    credentials: [token]
    invoke: {name: tools, action: {run: "true"}}
install:
  - {description: x, invoke: {name: tools, action: {run: "true"}}}
`,
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  it.each(cases)('$code is told in one message', async ({ lies, args = [], ...refusal }) => {
    await using proxy = await dockerProxy(mkdtempSync(join(world.directory, 'd-')), lies);
    const command = ['invoke', 'failing', '--action', 'look', ...args];
    const ran = await world.skycap(command, { cwd, env: { DOCKER_HOST: proxy.host } });
    expectRefused(ran, refusal);
  });

  it('OCI_DAEMON_REFUSED an image that the daemon does not give', async () => {
    const lie = { method: 'GET', path: /^\/images\//, status: 500, body: '{"message":"out of order"}' };
    await using proxy = await dockerProxy(mkdtempSync(join(world.directory, 'd-')), [lie]);
    const ran = await world.skycap(['image', 'copy', 'docker-daemon:acme/tools:1', 'oci:out'], {
      cwd,
      env: { DOCKER_HOST: proxy.host },
    });
    expectRefused(ran, { code: 'OCI_DAEMON_REFUSED', exit: 28, says: ['status 500', 'out of order'] });
  });
});
