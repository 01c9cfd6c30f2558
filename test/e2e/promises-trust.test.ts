import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeGate } from '../../src/testkit/gate.ts';
import { enginesToTest } from '../support/engines.ts';
import { promisedForms } from '../support/secret-forms.ts';
import { expectCode, makeWorld, program, type World } from '../support/world.ts';

describe.each(enginesToTest('oci-runtime'))('trust and secrets on %s', (engine) => {
  let world: World;
  let tools: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    tools = await world.image('acme/tools:1');
    expectCode(await world.skycap(['image', 'pull', tools]), 0);
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  /** A bundle, locked. */
  async function locked(yaml: string, files: Record<string, string> = {}): Promise<string> {
    const cwd = world.bundle({ 'porter.yaml': yaml, ...files });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    return cwd;
  }

  const simple = (name: string, more = '', step = 'echo ran'): string => `name: ${name}
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"${more}}
install:
  - {id: only, description: Only, invoke: {name: tools, action: {command: [sh, -c, "${step}"]}}}
`;

  it('S1 takes no power from the bundle or the working folder', async () => {
    const hostile = `engine: docker
engines: {docker: {host: "tcp://203.0.113.1:2375"}}
registries: [{prefix: ghcr.io, location: "evil.example", insecure: true}]
consents: [{kind: docker, bundle: /, step: "*"}, {kind: docker, bundle: ".", image: tools, step: "*"}]
credentials: {token: {command: "touch hacked"}}
state: {directory: /nowhere}
`;
    const names = ['config.yaml', 'skycap.yaml', 'skycap/config.yaml', '.skycap/config.yaml', '.skycap.yaml'];
    const planted = [
      ...names,
      '.config/skycap/config.yaml',
      'etc/skycap/config.yaml',
      'config/skycap/config.yaml',
    ];
    const cwd = world.bundle({
      'porter.yaml': `${simple('hostile', ', docker: true')}custom: {consents: [docker], engine: docker}\n`,
      '.env': 'SKYCAP_ENGINE=docker\nSKYCAP_INSTALL_ALLOW_DOCKER_HOST_ACCESS=tools\n',
      'registries.conf': '[[registry]]\nprefix = "ghcr.io"\nlocation = "evil.example"\ninsecure = true\n',
      ...Object.fromEntries(planted.map((path) => [path, hostile])),
    });
    for (const env of [
      {},
      { XDG_CONFIG_HOME: 'config' },
      { XDG_CONFIG_HOME: '.' },
      { XDG_CONFIG_HOME: '' },
    ]) {
      const here = await world.skycap(['config', 'show', '-o', 'json'], { cwd, env });
      const elsewhere = await world.skycap(['config', 'show', '-o', 'json'], { env });
      expect(expectCode(here, 0).stdout).toBe(expectCode(elsewhere, 0).stdout);
      expect(here.stdout).not.toMatch(/evil|203\.0\.113\.1|nowhere/);
    }
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    expect(expectCode(await world.skycap(['install'], { cwd }), 45).stderr).toContain('CONSENT_MISSING');
    expect(readdirSync(cwd)).not.toContain('hacked');
  });

  it('S2 gives the Docker socket to the steps of a granted image alone', async () => {
    const cwd = await locked(`name: socket
version: 1.0.0
invocationImages:
  - {name: docker-tools, image: "${tools}", docker: true}
  - {name: others, image: "${tools}"}
  - {name: loud, image: "${tools}", network: host}
install:
  - {id: with, description: With, invoke: {name: docker-tools, action: {command: [sh, -c, "ls /var/run/docker.sock && echo has-it"]}}}
  - {id: without, description: Without, invoke: {name: others, action: {command: [sh, -c, "test -e /var/run/docker.sock || echo has-none"]}}}
invoked:
  - {id: net, description: Net, invoke: {name: loud, action: {command: [echo, never]}}}
`);
    const plan = expectCode(await world.skycap(['install', '--dry-run'], { cwd }), 45);
    expect(plan.stdout).toMatch(/docker-tools.*root on this host/s);
    const refused = expectCode(await world.skycap(['install'], { cwd }), 45);
    expect(refused.stderr).toMatch(/CONSENT_MISSING.*root on this host/s);
    expect(refused.stderr).not.toContain('started');
    const other = await world.skycap(['install', '--allow-docker-host-access=others'], { cwd });
    expect(expectCode(other, 45).stderr).not.toContain('started');
    const granted = await world.skycap(['install', '--allow-docker-host-access=docker-tools'], { cwd });
    expectCode(granted, 0);
    expect(granted.stderr).toMatch(/with \| has-it/);
    expect(granted.stderr).toMatch(/without \| has-none/);
    const host = expectCode(await world.skycap(['invoke', 'socket', '--action', 'invoked'], { cwd }), 45);
    expect(host.stderr).toContain('--allow-host-network');
    expect(host.stderr).not.toContain('never');
  });

  it("S3 wants the machine's file to be root's, and lets nothing replace it", async () => {
    const etc = mkdtempSync(join(world.directory, 'etc-'));
    execFileSync('cp', ['-a', '/etc/.', etc]);
    mkdirSync(join(etc, 'skycap'), { recursive: true });
    const file = join(etc, 'skycap/config.yaml');
    const blocked = `registries: [{prefix: "${world.registry}/acme", blocked: true}]\n`;
    writeFileSync(file, blocked);
    const own = join(world.env.XDG_CONFIG_HOME as string, 'skycap/config.yaml');
    mkdirSync(dirname(own), { recursive: true });
    writeFileSync(own, blocked.replace('true', 'false'));
    const inMachine = (args: readonly string[], env: Record<string, string> = {}) =>
      spawnSync(
        'unshare',
        ['-m', 'sh', '-c', 'mount --bind "$1" /etc && shift && exec "$@"', 'sh', etc, program, ...args],
        {
          env: { ...world.env, ...env },
          cwd: world.env.HOME,
          encoding: 'utf8',
        },
      );
    try {
      for (const env of [{}, { XDG_CONFIG_DIRS: '/nowhere', SKYCAP_CONFIG: own, SKYCAP_MACHINE_FILE: own }]) {
        const pull = inMachine(['image', 'pull', tools], env);
        expect([pull.status, pull.stderr]).toEqual([26, expect.stringContaining('REGISTRY_BLOCKED')]);
      }
      execFileSync('chown', ['12345', file]);
      const foreign = inMachine(['config', 'show']);
      expect([foreign.status, foreign.stderr]).toEqual([2, expect.stringContaining('SETTINGS_OWNER')]);
    } finally {
      writeFileSync(own, '');
    }
  });

  it('S5 resolves a tag when it locks, and believes the lock nothing', async () => {
    const cwd = await locked(simple('resolved'));
    const file = join(cwd, 'porter.lock');
    const lock = readFileSync(file, 'utf8');
    const other = await world.image('acme/other:1', { busybox: true, files: { other: 'x' } });
    const otherCwd = await locked(simple('other').replace(tools, other));
    const digests = (text: string): string[] =>
      [...text.matchAll(/sha256:[0-9a-f]{64}/g)].map(([found]) => found);
    const foreign = digests(readFileSync(join(otherCwd, 'porter.lock'), 'utf8')).at(-1) as string;

    const before = world.requests.length;
    expectCode(await world.skycap(['install'], { cwd }), 0);
    expect(world.requests.slice(before).filter(({ path }) => path.includes('/manifests/1'))).toEqual([]);

    const platform = digests(lock).at(-1) as string;
    const swapped =
      lock.slice(0, lock.lastIndexOf(platform)) +
      lock.slice(lock.lastIndexOf(platform)).replace(platform, foreign);
    expect(swapped).not.toBe(lock);
    for (const edited of [swapped, lock.replace(/(entrypoint|cmd|env|user): ?.*/, '$1: [evil]')]) {
      if (edited === lock) continue;
      writeFileSync(file, edited);
      const ran = await world.skycap(['install', 'edited', '--force'], { cwd });
      expect(ran.code, ran.stderr).toBeGreaterThanOrEqual(10);
      expect(ran.stderr).not.toContain('step only: started');
    }
  });

  it('S6 refuses bytes that do not have their digest, wherever they come from', async () => {
    await world.image('acme/damaged:1', { busybox: true, files: { only: 'of this image' } });
    let lie: 'nothing' | 'layer' | 'manifest' = 'nothing';
    const server = createServer((request, response) => {
      const { method = 'GET', headers, url = '' } = request;
      fetch(`http://${world.registry}${url}`, { method, headers: { accept: headers.accept ?? '*/*' } }).then(
        async (answer) => {
          const bytes = Buffer.from(await answer.arrayBuffer());
          const at = bytes.indexOf('of this image');
          if (lie === 'layer' && at >= 0) bytes.write('OF', at);
          const described = Object.fromEntries(answer.headers);
          const wrong = lie === 'manifest' && method === 'GET' && url.includes('/manifests/');
          response
            .writeHead(answer.status, described)
            .end(wrong ? Buffer.from(`${bytes}`.replace('{', '[')) : bytes);
        },
        () => response.destroy(),
      );
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      const { port } = server.address() as AddressInfo;
      const cwd = await locked(simple('damaged').replace(tools, `127.0.0.1:${port}/acme/damaged:1`));
      for (const part of ['layer', 'manifest'] as const) {
        lie = part;
        const env = { SKYCAP_STORE_DIRECTORY: join(world.directory, `store-${part}`) };
        const ran = await world.skycap(['install'], { cwd, env });
        expectCode(ran, 23);
        expect(ran.stderr).toMatch(/\[(REGISTRY_DIGEST_MISMATCH|OCI_BLOB_CORRUPT)\].*sha256:/s);
        expect(ran.stderr).not.toContain('step only: started');
      }
      lie = 'nothing';
      const env = { SKYCAP_STORE_DIRECTORY: join(world.directory, 'store-layer') };
      expectCode(await world.skycap(['install'], { cwd, env }), 0);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  it('S7 warns of a tag that moved when it locks and lints, and runs what is locked', async () => {
    const reference = await world.image('acme/moving:1', { busybox: true, files: { version: 'first' } });
    const cwd = await locked(simple('moving', '', 'cat /version').replace(tools, reference));
    await world.image('acme/moving:1', { busybox: true, files: { version: 'second' } });

    const ran = expectCode(await world.skycap(['install'], { cwd }), 0);
    expect(ran.stderr).toContain('only | first');
    expect(ran.stderr).not.toMatch(/moved|names another/);
    const again = expectCode(await world.skycap(['lock'], { cwd }), 0);
    expect(again.stdout + again.stderr).toMatch(/warning: the tag has moved on: .*tools/);
    expectCode(await world.skycap(['install', '--force'], { cwd }), 0);
    const linted = expectCode(await world.skycap(['lint', '--tags'], { cwd }), 0);
    expect(linted.stdout).toMatch(/porter\.yaml:4:\d+: warning: .*\[moved-tag\]/);
  });

  it('S21 masks across chunks, says what it does not mask, and leaves other transformations', async () => {
    const secret = 'it\'s "long" & $secret/ü+ enough';
    const cwd = await locked(`name: masked
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}", parameters: [secret, pin, switch]}
parameters:
  - {name: secret, type: string, sensitive: true}
  - {name: pin, type: string, sensitive: true}
  - {name: switch, type: boolean, sensitive: true}
  - {name: forms, path: /tmp/forms}
install:
  - id: only
    description: Only
    invoke:
      name: tools
      action:
        run: |
          printf %s "$SECRET" | while IFS= read -r -n 1 c; do printf %s "$c"; sleep 0.01; done; echo " | $PIN $SWITCH"
          cat /tmp/forms
          printf %s "$SECRET" | rev
`);
    const forms = promisedForms(secret);
    writeFileSync(join(cwd, '../secret'), secret);
    writeFileSync(join(cwd, '../forms'), forms.map((form) => `form ${form.bytes}\n`).join(''));
    const ran = await world.skycap(
      [
        'install',
        '--param',
        'secret=@../secret',
        '--param',
        'forms=@../forms',
        '--param',
        'pin=123',
        '--param',
        'switch=true',
      ],
      { cwd },
    );
    expectCode(ran, 0);
    expect(ran.stderr).toContain('only | ******* | 123 true');
    expect(ran.stderr.match(/only \| form .*/g)).toEqual(forms.map(() => 'only | form *******'));
    expect(ran.stderr).toMatch(/warning.*\bpin\b/);
    expect(ran.stderr).toMatch(/warning.*\bswitch\b/);
    expect(ran.stderr).toContain([...secret].reverse().join('').slice(0, 6));
  });

  it('S22 holds the output of a step that makes a sensitive output, unless --show-live', async () => {
    const steps = ['open', 'closed', 'opened', 'nowhere'];
    const gates = steps.map(makeGate);
    const cwd = await locked(`name: held
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"}
outputs:
  - {name: open, type: string, sensitive: false}
  - {name: closed, type: string, sensitive: true}
  - {name: opened, type: string, sensitive: true}
install:
${steps
  .map(
    (name, at) => `  - id: ${name}
    description: ${name}
    invoke:
      name: tools
      action: {command: [sh, -c, "echo ${name}-is-the-value; ${gates[at]?.wait}"]}
      outputs: [{name: ${name}, stdout: true${name === 'opened' ? ', sensitive: false' : ''}}]
`,
  )
  .join('')}`);
    /** Steps of which something is to be seen while they wait go on only when it was seen; the others when they began. */
    const look = async (isHeld: (step: string) => boolean, args: readonly string[]) => {
      const running = world.start(['install', '--force', '--progress', 'json', ...args], { cwd });
      const opened = new Map<string, number>();
      for (const [at, step] of steps.entries()) {
        await running.said(new RegExp(`"step\\.${isHeld(step) ? 'running' : 'output'}"[^\n]*"${step}"`));
        // What was seen is then the older by at least a millisecond.
        await sleep(isHeld(step) ? 300 : 10);
        opened.set(step, Date.now());
        await gates[at]?.open();
      }
      const ran = expectCode(await running.ended, 0);
      const of = (type: string, step: string) =>
        ran.events.find((event) => event.type === type && event.step === step) as {
          time: string;
          text?: string;
        };
      return steps.map((step) => {
        const shown = of('step.output', step);
        const isLate = Date.parse(shown.time) >= (opened.get(step) ?? 0);
        return [step, shown.text?.trim(), isLate ? 'held' : 'at once'];
      });
    };
    const hidden = '*******';
    expect(await look((step) => ['closed', 'nowhere'].includes(step), [])).toEqual([
      ['open', 'open-is-the-value', 'at once'],
      ['closed', hidden, 'held'],
      ['opened', 'opened-is-the-value', 'at once'],
      ['nowhere', hidden, 'held'],
    ]);
    // An installation of its own: what a last run made is masked from the start.
    const live = await look(() => false, ['fresh', '--show-live']);
    expect(live.map(([, , when]) => when)).toEqual(['at once', 'at once', 'at once', 'at once']);
  });

  it('S22 keeps hidden what holds a value that cannot be had', async () => {
    const cwd = await locked(`name: unmasked
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"}
outputs:
  - {name: number, type: integer, sensitive: true}
install:
${[
  ['no-json', 'echo {token: no-json-value', '{name: a, jsonPath: $.token}'],
  ['no-match', 'echo token: no-match-value', '{name: b, regex: "token=(.*)"}'],
  ['no-number', 'echo no-number-value', '{name: number, stdout: true}'],
  ['too-large', 'echo too-large-value; truncate -s 300M outputs/large', '{name: c, stdout: true}'],
  ['fails', 'echo fails-value >&2; exit 3', '{name: d, jsonPath: $.token}'],
]
  .map(
    ([id, command, output]) => `  - id: ${id}
    description: ${id}
    always: true
    invoke:
      name: tools
      action: {run: "${command}"}
      outputs: [${output}]
`,
  )
  .join('')}`);
    const ran = expectCode(await world.skycap(['install', '--progress', 'json'], { cwd }), 50);
    const steps = ['no-json', 'no-match', 'no-number', 'too-large'];
    for (const step of steps) expect(ran.stdout + ran.stderr).not.toContain(`${step}-value`);
    const notices = ran.events.filter((event) => event.code === 'output-hidden');
    expect(notices.map((event) => /^step (\S+): /.exec(String(event.message))?.[1])).toEqual(steps);
    // What went wrong is to be seen: with nothing on stdout no value can have been there.
    expect(ran.events).toContainEqual(
      expect.objectContaining({ type: 'step.output', step: 'fails', text: 'fails-value\n' }),
    );
  });

  it('S24 does not show what steps of a killed run printed where it had secrets', async () => {
    const gate = makeGate();
    const cwd = await locked(`name: orphaned
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"}
credentials:
  - {name: token, env: TOKEN}
install:
  - {id: knows, description: Knows, credentials: [token], invoke: {name: tools, action: {run: 'echo "$TOKEN" > token'}}}
  - {id: blind, description: Blind, invoke: {name: tools, action: {run: '${gate.wait}; echo it is $(cat token)'}}}
`);
    const args = ['install', 'orphaned', '--credential', 'token=env:T', '--progress', 'json'];
    const env = { T: 'a-token-of-mine' };
    const first = world.start(args, { cwd, env });
    await first.said(/"step\.running"[^\n]*"blind"/);
    first.process.kill('SIGKILL');
    await first.ended;

    const going = world.skycap([...args, '--resume'], { cwd, env });
    await gate.open();
    const next = expectCode(await going, 0);

    expect(next.events).toContainEqual(
      expect.objectContaining({ type: 'step.finished', step: 'blind', exitCode: 0 }),
    );
    expect(next.stdout + next.stderr).not.toContain('it is');
    const notices = next.events.filter((event) => event.code === 'output-hidden');
    expect(notices.map((event) => event.message)).toEqual([expect.stringMatching(/^step blind: /)]);
  });

  it('S23 keeps secret files on a tmpfs', async () => {
    const cwd = await locked(
      `name: files
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}", credentials: [token], parameters: [key]}
credentials:
  - {name: token, path: /home/user/token}
parameters:
  - {name: key, path: key.pem, sensitive: true}
install:
  - id: only
    description: Only
    invoke:
      name: tools
      action:
        run: |
          # \${ bundle.parameters.key }
          for file in /home/user/token /cnab/app/key.pem; do
            echo "$file $(stat -f -c %T "$file") $(wc -c < "$file")"
          done
`.replace('          # ${ bundle.parameters.key }\n', ''),
    );
    writeFileSync(join(cwd, '../token'), 'a-token');
    const ran = await world.skycap(
      ['install', '--credential', `token=path:${join(cwd, '../token')}`, '--param', 'key=@../token'],
      { cwd },
    );
    expectCode(ran, 0);
    expect(ran.stderr).toContain('only | /home/user/token tmpfs 7');
    expect(ran.stderr).toContain('only | /cnab/app/key.pem tmpfs 7');
  });

  it('B80 B81 shows plain parameters to every step and secrets to those that name them', async () => {
    const step = (id: string, keys: string, more = ''): string => `  - id: ${id}
    description: ${id}
${keys}    invoke:
      name: ${id.startsWith('bare') ? 'bare' : 'tools'}
      action: {command: [sh, -c, 'echo "<$PLAIN> <$TOKEN> <$OTHER> <$SECRET>"${more}']}
`;
    const cwd = await locked(`name: seen
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}", credentials: [token], parameters: [secret]}
  - {name: bare, image: "${tools}"}
credentials:
  - {name: token, env: TOKEN}
  - {name: other, env: OTHER}
parameters:
  - {name: plain, type: string, default: here}
  - {name: secret, type: string, sensitive: true}
outputs:
  - {name: made, type: string, sensitive: true}
  - {name: key, type: string, sensitive: true, path: /data/key}
  - {name: note, type: string, path: /data/note}
install:
${step('image', '')}${step('none', '    credentials: []\n    parameters: []\n')}${step('named', '    credentials: [other]\n')}${step('all', '    credentials: all\n    parameters: all\n')}${step('bare-of-all', '')}${step('bare-uses', '', "; : '${ bundle.credentials.other }'").replace(/action: .*/, `action: {command: [sh, -c, 'echo "<$PLAIN> <$TOKEN> <$OTHER> <$SECRET>"', "\${ bundle.credentials.other }", "\${ bundle.parameters.secret }"]}`)}  - id: makes
    description: Makes
    invoke: {name: bare, action: {command: [sh, -c, 'printf made-here > /cnab/app/outputs/made; mkdir /data; printf k3y > /data/key; printf n > /data/note']}}
  - id: blind
    description: Blind
    invoke: {name: bare, action: {command: [sh, -c, 'grep -c made-here /cnab/context.json /cnab/claim.json; test ! -e /data/key && test -e /data/note && echo looked']}}
  - id: reads
    description: Reads
    invoke: {name: bare, action: {command: [sh, -c, 'test "$0" = made-here && echo got-it', "\${ bundle.outputs.made }"]}}
  - id: opens
    description: Opens
    inputs: [key]
    invoke: {name: bare, action: {command: [sh, -c, 'test "$(cat /data/key)" = k3y && echo has-key']}}
`);
    writeFileSync(join(cwd, '../s'), 'a-secret');
    const ran = await world.skycap(
      ['install', '--credential', 'token=env:T', '--credential', 'other=env:O', '--param', 'secret=@../s'],
      { cwd, env: { T: 'a-token', O: 'another' } },
    );
    expectCode(ran, 0);
    const line = (id: string): string | undefined =>
      new RegExp(`^${id} \\| (<.*)$`, 'm').exec(ran.stderr)?.[1];
    const hidden = '<*******>';
    expect({
      image: line('image'),
      none: line('none'),
      named: line('named'),
      all: line('all'),
      bare: line('bare-of-all'),
      uses: line('bare-uses'),
    }).toEqual({
      image: `<here> ${hidden} <> ${hidden}`,
      none: '<here> <> <> <>',
      named: `<here> <> ${hidden} ${hidden}`,
      all: `<here> ${hidden} ${hidden} ${hidden}`,
      bare: '<here> <> <> <>',
      uses: `<here> <> ${hidden} ${hidden}`,
    });
    expect(ran.stderr).toMatch(/blind \| .*claim\.json:0/);
    expect(ran.stderr).toMatch(/blind \| .*context\.json:0/);
    expect(ran.stderr).toContain('blind | looked');
    expect(ran.stderr).toContain('reads | got-it');
    expect(ran.stderr).toContain('opens | has-key');
  });

  it('B82 refuses a credential that no step sees; --fix adds what expressions prove and removes nothing', async () => {
    const yaml = (step: string): string => `schemaVersion: 1.0.1
name: unseen
version: 1.0.0
description: x
invocationImages:
  - {name: tools, image: "${tools}"}
credentials:
  - {name: token, path: /home/user/token}
  - {name: other, path: /home/user/other}
install:
  - id: only
    description: Only
${step}    invoke: {name: tools, action: {command: [echo, "\${ bundle.credentials.token }"]}}
`;
    const unseen = world.bundle({ 'porter.yaml': yaml('') });
    const refused = expectCode(await world.skycap(['lint'], { cwd: unseen }), 10);
    expect(refused.stdout).toMatch(/porter\.yaml:9:\d+: error: no step sees the credential `other`/);
    expect(refused.stdout).not.toContain('no step sees the credential `token`');

    const cwd = world.bundle({ 'porter.yaml': yaml('    credentials: [other]\n') });
    expectCode(await world.skycap(['lint', '--fix'], { cwd }), 0);
    expect(readFileSync(join(cwd, 'porter.yaml'), 'utf8')).toBe(yaml('    credentials: [other, token]\n'));
  });
});
