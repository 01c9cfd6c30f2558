import { execFile } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lacking } from '../../src/testkit/programs.ts';
import { debianRegistry, type RunningRegistry } from '../../src/testkit/registry/index.ts';
import { type Answer, onTerminal } from '../support/terminal.ts';
import { expectCode, makeWorld, type World } from '../support/world.ts';

const lacks = lacking('login', {
  'docker-registry': 'docker-registry',
  htpasswd: 'apache2-utils',
  skopeo: 'skopeo',
  script: 'bsdutils',
});

const password = 'hunter2 "quoted"';

describe.skipIf(lacks)('login and logout at a registry that wants a password', () => {
  let world: World;
  let registry: RunningRegistry;
  let reference: string;

  beforeAll(async () => {
    world = await makeWorld('oci-runtime');
    registry = await debianRegistry({ kind: 'htpasswd', users: { acme: password } });
    const source = await world.image('tools:1');
    reference = `${registry.host}/acme/tools:1`;
    const copied = ['--src-tls-verify=false', '--dest-tls-verify=false', '--dest-creds', `acme:${password}`];
    // Not execFileSync: the world's registry is in this process.
    await promisify(execFile)('skopeo', [
      'copy',
      '--insecure-policy',
      ...copied,
      `docker://${source}`,
      `docker://${reference}`,
    ]);
  });
  afterAll(async () => {
    await registry[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
  });

  const login = (given: string, user = 'acme') =>
    world.skycap(['login', registry.host, '-u', user, '--password-stdin', '-o', 'json'], { input: given });

  it('refuses a wrong password and keeps nothing of it', async () => {
    const refused = await login('guessed-wrong\n');

    expectCode(refused, 27);
    expect(refused.stderr).toContain(registry.host);
    expect(refused.stdout + refused.stderr).not.toContain('guessed-wrong');
    expectCode(await world.skycap(['image', 'pull', reference]), 27);
  });

  describe('on a terminal', () => {
    const asking = (answers: readonly Answer[], ...more: string[]) =>
      onTerminal(world, ['login', registry.host, ...more], answers);

    it('asks for what was not given, one after the other, and shows no password', async () => {
      const ran = await asking([
        { to: 'user name: ', typed: 'acme\n' },
        { to: 'password: ', typed: `wrong\u007f\u007f\u007f\u007f\u007f${password}\r` },
      ]);

      expect(ran.shown).toContain('logged in');
      expect(ran.shown).not.toContain('hunter2');
      expect(ran.code).toBe(0);
      expectCode(await world.skycap(['logout', registry.host]), 0);
    });

    it.each([
      ['Ctrl-C', '\u0003', 130, '[CANCELLED]'],
      ['Ctrl-D', '\u0004', 2, 'login needs a password'],
    ])('ends at %s', async (_key, typed, code, says) => {
      const atPassword = await asking([{ to: 'password: ', typed }], '-u', 'acme');
      expect(atPassword.shown).toContain(says);
      expect(atPassword.code).toBe(code);
      const atName = await asking([{ to: 'user name: ', typed }]);
      expect(atName.shown).toContain(says.replace('password', 'user name'));
      expect(atName.code).toBe(code);
    });
  });

  it('asks nobody where nobody is there', async () => {
    for (const within of [
      ['sh', '-c', 'exec "$@" <&-', 'sh'],
      ['sh', '-c', 'exec "$@" </dev/null', 'sh'],
      [],
    ]) {
      const ran = await world.start(['login', registry.host, '-u', 'acme'], { within, input: 'typed\n' })
        .ended;
      expectCode(ran, 2);
      expect(ran.stderr).toContain('login needs a password');
    }
  });

  it('pulls with what login keeps, and no more after logout', async () => {
    const kept = expectCode(await login(`${password}\n`), 0);
    expect(kept.stdout + kept.stderr).not.toContain('hunter2');
    const { where } = kept.json<{ kept: { where: string } }>().kept;
    expect(statSync(where).mode & 0o777).toBe(0o600);

    expectCode(await world.skycap(['image', 'pull', reference]), 0);
    const bundle = world.bundle({
      'porter.yaml': JSON.stringify({
        name: 'private',
        version: '1.0.0',
        invocationImages: [{ name: 'tools', image: reference }],
        install: [
          {
            id: 'one',
            description: 'One',
            invoke: { name: 'tools', action: { command: ['echo', 'it ran'] } },
          },
        ],
        uninstall: [
          { id: 'away', description: 'Away', invoke: { name: 'tools', action: { command: ['true'] } } },
        ],
      }),
    });
    expectCode(await world.skycap(['lock'], { cwd: bundle }), 0);

    expectCode(await world.skycap(['logout', registry.host]), 0);
    expect(readFileSync(where, 'utf8')).not.toContain(Buffer.from(`acme:${password}`).toString('base64'));
    expectCode(await world.skycap(['lock', '--update'], { cwd: bundle }), 27);
    expectCode(await world.skycap(['logout', registry.host]), 0);
  });
});
