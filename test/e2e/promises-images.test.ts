import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type Ran, type World } from '../support/world.ts';

/** What a step printed, as the events tell it. */
function printed(ran: Ran, step: string): string {
  return ran.events
    .filter((event) => event.type === 'step.output' && event.step === step)
    .map((event) => event.text)
    .join('')
    .trimEnd();
}

describe.each(enginesToTest('oci-runtime', 'docker'))('what an invocation image says, on %s', (engine) => {
  let world: World;
  let tools: string;
  let cwd: string;
  let installed: Ran;

  beforeAll(async () => {
    world = await makeWorld(engine);
    tools = await world.image('tools:1');
    const user = await world.image('user:1', { busybox: true, config: { user: '1000:1000' } });
    cwd = world.bundle({ note: 'from the bundle\n', 'porter.yaml': bundle(tools, user) });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    installed = expectCode(await world.skycap(['install', '--progress', 'json'], { cwd }), 0);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  it('B10 gives network, a writable workspace, a HOME and root of its own, and no limits unless told', async () => {
    expect(printed(installed, 'defaults')).toMatch(/^interfaces: .*\b(?!lo\b)\w+/);
    expect(printed(installed, 'defaults')).toContain('wrote workspace, home and root');
    expect(printed(installed, 'defaults-again')).toBe('workspace kept; home fresh; root fresh');
    const plan = await world.skycap(['install', 'planned', '--dry-run', '-o', 'json'], { cwd });
    const { images } = expectCode(plan, 0).json<{ images: Record<string, Record<string, unknown>> }>();
    expect(images.plain).toMatchObject({ network: 'default', workspace: 'rw', home: 'own', resources: {} });
  });

  it('B11 shares one HOME and one /tmp among the steps of a run that share', async () => {
    expect(printed(installed, 'share')).toBe('HOME=/home/nonroot');
    expect(printed(installed, 'shared')).toBe('home home root root tmp');
    expect(printed(installed, 'unshared')).toBe('nothing');
  });

  it('B12 keeps a workspace read-only, and one away', () => {
    expect(printed(installed, 'read-only')).toBe('from the bundle\nrefused');
    expect(printed(installed, 'away')).toBe('absent');
  });

  it('B13 leaves only loopback without network', () => {
    expect(printed(installed, 'offline')).toBe('interfaces: lo');
  });

  it('B14 keeps volumes for a run, and for an installation until it was uninstalled', async () => {
    expect(printed(installed, 'volumes-read')).toBe('of the run, of the installation');
    const upgraded = await world.skycap(['upgrade', '--progress', 'json'], { cwd });
    expect(printed(expectCode(upgraded, 0), 'look')).toBe('no run, of the installation, no shared home');
    // An uninstall that fails leaves them.
    expectCode(await world.skycap(['uninstall', '--param', 'fails=true'], { cwd }), 50);
    const kept = await world.skycap(['upgrade', '--progress', 'json'], { cwd });
    expect(printed(expectCode(kept, 0), 'look')).toContain('of the installation');
    expectCode(await world.skycap(['uninstall', '--param', 'fails=false'], { cwd }), 0);
    const again = await world.skycap(['invoke', '--action', 'peek', '--progress', 'json'], {
      cwd,
    });
    expect(printed(expectCode(again, 0), 'peek')).toBe('no installation');
  });

  it('B15 replaces the user of the image', () => {
    expect(printed(installed, 'as-image')).toBe('1000:1000');
    expect(printed(installed, 'as-told')).toBe('1001');
  });

  it('B17 pulls the images that its steps use, and no others', async () => {
    const [one, two] = [
      await world.image('one:1', { busybox: true, files: { one: '1' } }),
      await world.image('two:1', { busybox: true, files: { two: '2' } }),
    ];
    const folder = world.bundle({
      'porter.yaml': `name: sparing
version: 1.0.0
invocationImages:
  - {name: one, image: "${one}"}
  - {name: two, image: "${two}"}
install:
  - invoke: {name: one, action: {command: [cat, /one]}}
upgrade:
  - invoke: {name: two, action: {command: [cat, /two]}}
`,
    });
    expectCode(await world.skycap(['lock'], { cwd: folder }), 0);
    const asked = (name: string): number =>
      world.requests.filter(({ path }) => path.includes(`/${name}/`)).length;
    const before = asked('two');

    expectCode(await world.skycap(['install'], { cwd: folder }), 0);

    expect(asked('two')).toBe(before);
    expectCode(await world.skycap(['upgrade'], { cwd: folder }), 0);
    expect(asked('two')).toBeGreaterThan(before);
  });
});

describe.each(enginesToTest('oci-runtime'))('images that are still to be made, on %s', (engine) => {
  let world: World;
  beforeAll(async () => {
    world = await makeWorld(engine);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  it('B16 lints build: and bake:, pins their inputs and refuses to run them', async () => {
    const base = await world.image('base:1');
    const tools = await world.image('tools:1');
    const cwd = world.bundle({
      'image/Dockerfile': `ARG BASE\nFROM $BASE AS stage\nFROM ${base}\nCOPY tool /bin/tool\n`,
      'image/tool': 'one',
      'images.yaml': 'ansible: {}\n',
      'porter.yaml': `name: built
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"}
  - {name: site, build: {context: image, target: stage, args: {BASE: "${tools}"}}}
  - {name: ansible, bake: ./images.yaml#ansible}
install:
  - invoke: {name: tools, action: {command: [echo, begun]}}
  - invoke: {name: site, action: {command: [tool]}}
customActions:
  playbook: {modifies: false, stateless: true}
playbook:
  - invoke: {name: ansible, action: {command: [tool]}}
`,
    });
    const lockFile = join(cwd, 'porter.lock');
    const lock = () =>
      JSON.parse(readFileSync(lockFile, 'utf8')).invocationImages as {
        site: { build: Record<string, unknown> & { bases: Record<string, string> } };
        ansible: { bake: Record<string, unknown> };
      };
    const linted = await world.skycap(['lint', '-o', 'json'], { cwd });
    expect(expectCode(linted, 0).json().problems).toEqual([]);
    expectCode(await world.skycap(['lock'], { cwd }), 0);

    const first = lock();
    const digest = expect.stringMatching(/^sha256:[0-9a-f]{64}$/);
    expect(first.site.build).toEqual({
      context: digest,
      dockerfile: digest,
      target: 'stage',
      args: { BASE: tools },
      bases: { [base]: digest, [tools]: digest },
    });
    expect(first.ansible.bake).toEqual({ file: './images.yaml', name: 'ansible', digest });

    // Equal inputs, equal lock; a base moves only when it is told to.
    await world.image('base:1', { busybox: true, files: { newer: 'x' } });
    expect(expectCode(await world.skycap(['lock'], { cwd }), 0).stdout).toContain('up to date');
    writeFileSync(join(cwd, 'image/tool'), 'two');
    writeFileSync(join(cwd, 'images.yaml'), 'ansible: {context: .}\n');
    expectCode(await world.skycap(['lock', '--check'], { cwd }), 16);
    const moved = expectCode(await world.skycap(['lock'], { cwd }), 0);
    expect(moved.stdout).toMatch(/moved\s+site/);
    expect(moved.stdout).toMatch(/moved\s+ansible/);
    expect(lock().site.build.context).not.toBe(first.site.build.context);
    expect(lock().site.build.bases).toEqual(first.site.build.bases);
    expect(lock().ansible.bake.digest).not.toBe(first.ansible.bake.digest);
    expectCode(await world.skycap(['lock', '--update', 'site'], { cwd }), 0);
    expect(lock().site.build.bases[base]).not.toBe(first.site.build.bases[base]);
    expect(lock().site.build.bases[tools]).toBe(first.site.build.bases[tools]);

    for (const [command, kind] of [
      [['install'], 'build'],
      [['invoke', '--action', 'playbook'], 'bake'],
    ] as const) {
      const refused = expectCode(await world.skycap([...command, '--progress', 'json'], { cwd }), 17);
      expect(refused.stderr).toContain('IMAGE_SOURCE_LATER');
      expect(refused.stderr).toContain(`\`${kind}:\``);
      expect(refused.events.some((event) => String(event.type).startsWith('step.'))).toBe(false);
    }
  });
});

function bundle(tools: string, user: string): string {
  return `name: imaged
version: 1.0.0
invocationImages:
  - {name: plain, image: "${tools}"}
  - {name: one, image: "${tools}", home: shared}
  - {name: two, image: "${tools}", home: shared}
  - {name: readonly, image: "${tools}", workspace: ro}
  - {name: away, image: "${tools}", workspace: none}
  - {name: offline, image: "${tools}", network: none}
  - name: volumes
    image: "${tools}"
    volumes:
      - {name: cache, path: /var/cache/run, scope: run}
      - {name: keep, path: /var/cache/keep, scope: installation}
  - {name: as-image, image: "${user}"}
  - {name: as-told, image: "${user}", user: "1001"}
parameters:
  - {name: fails, type: boolean, default: false}
install:
  - id: defaults
    invoke:
      name: plain
      action:
        run: |
          echo "interfaces:" $(ls /sys/class/net 2>/dev/null || sed -n 's/^ *\\([a-z0-9]*\\):.*/\\1/p' /proc/net/dev)
          mkdir -p "$HOME"
          echo x > mark && echo x > "$HOME/mark" && echo x > /mark
          echo "wrote workspace, home and root"
  - id: defaults-again
    invoke:
      name: plain
      action:
        run: |
          [ -e mark ] && w=kept; [ -e "$HOME/mark" ] || h=fresh; [ -e /mark ] || r=fresh
          echo "workspace $w; home $h; root $r"
  - id: share
    invoke:
      name: one
      action:
        run: |
          echo "HOME=$HOME"; echo home > "$HOME/a"; echo root > /root/b; echo tmp > /tmp/c
  - id: shared
    invoke:
      name: two
      action:
        run: echo $(cat /home/nonroot/a /root/a /home/nonroot/b /root/b /tmp/c)
  - id: unshared
    invoke:
      name: plain
      action:
        run: |
          if [ -e /home/nonroot/a ] || [ -e /root/a ] || [ -e /tmp/c ]; then echo found; else echo nothing; fi
  - id: read-only
    invoke:
      name: readonly
      action:
        run: |
          cat note
          if ( echo x > written || echo x > note ) 2>/dev/null; then echo written; else echo refused; fi
  - id: away
    invoke:
      name: away
      action:
        run: if [ -e /cnab/app/note ] || [ -e /cnab/app/mark ]; then echo there; else echo absent; fi
  - id: offline
    invoke:
      name: offline
      action:
        run: echo "interfaces:" $(sed -n 's/^ *\\([a-z0-9]*\\):.*/\\1/p' /proc/net/dev)
  - id: volumes-write
    invoke:
      name: volumes
      action:
        run: echo "of the run" > /var/cache/run/f; echo "of the installation" > /var/cache/keep/f
  - id: volumes-read
    invoke:
      name: volumes
      action:
        run: echo "$(cat /var/cache/run/f), $(cat /var/cache/keep/f)"
  - id: as-image
    invoke: {name: as-image, action: {run: 'echo $(id -u):$(id -g)'}}
  - id: as-told
    invoke: {name: as-told, action: {command: [id, -u]}}
upgrade:
  - id: volumes-still
    invoke: {name: volumes, action: {run: 'cp /var/cache/keep/f kept; cp /var/cache/run/f run 2>/dev/null || echo "no run" > run'}}
  - id: look
    invoke: {name: one, action: {run: 'if [ -e /root/a ]; then h="a shared home"; else h="no shared home"; fi; echo "$(cat run), $(cat kept), $h"'}}
customActions:
  peek: {modifies: false, stateless: true}
peek:
  - id: peek
    invoke: {name: volumes, action: {run: 'cat /var/cache/keep/f 2>/dev/null || echo "no installation"'}}
uninstall:
  - invoke: {name: plain, action: {run: 'if [ \${ bundle.parameters.fails } = true ]; then exit 3; fi'}}
`;
}
