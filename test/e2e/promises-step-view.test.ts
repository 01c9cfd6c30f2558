import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { printed } from '../support/printed.ts';
import { expectCode, makeWorld, type Ran, type World } from '../support/world.ts';

/** No text, and not what any encoding of it looks like. */
const binary = Buffer.from([0, 1, 2, 255, 254, 10, 13, 0]);

describe.each(enginesToTest('oci-runtime', 'docker'))('what a step finds on %s', (engine) => {
  let world: World;
  let cwd: string;
  let installed: Ran;
  let together: Ran;
  let failed: Ran;

  const lines = (step: string, ran = installed): readonly string[] => printed(ran, step).split('\n');

  beforeAll(async () => {
    world = await makeWorld(engine);
    const carrier = (name: string) => ({
      [`cnab/app/carried/${name}`]: `from ${name}\n`,
      'cnab/app/carried/both': `from ${name}\n`,
      'cnab/app/data/note': `from ${name}\n`,
    });
    const images = {
      tools: await world.image('tools:1'),
      first: await world.image('first:1', { busybox: true, files: carrier('first') }),
      second: await world.image('second:1', { busybox: true, files: carrier('second') }),
      unused: await world.image('unused:1', { busybox: true, files: carrier('unused') }),
      number: await world.image('number:1', { busybox: true, config: { user: '1000' } }),
      named: await world.image('named:1', { busybox: true, config: { user: 'user' } }),
      stranger: await world.image('stranger:1', { busybox: true, config: { user: '4242:4343' } }),
    };
    cwd = world.bundle({
      'porter.yaml': bundle(images),
      'data/note': 'from the bundle\n',
      'data/report': 'empty\n',
      '.porterignore': 'private\n*.key\n!public.key\n',
      '.dockerignore': '*.log\n',
      '.gitignore': 'kept\n',
      kept: 'x',
      'private/file': 'x',
      'secret.key': 'x',
      'public.key': 'x',
      'build.log': 'x',
      '.git/config': 'x',
      'given.bin': binary,
    });
    mkdirSync(join(world.directory, 'given'));
    writeFileSync(join(world.directory, 'given/token'), 'hunter2-token');
    writeFileSync(join(world.directory, 'given/kubeconfig'), 'hunter2-kubeconfig\n');
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    const given = ['--credential', `kubeconfig=path:${world.directory}/given/kubeconfig`];
    given.push('--credential', 'key=env:GIVEN_KEY', '--param', `token=@${world.directory}/given/token`);
    const options = { cwd, env: { GIVEN_KEY: 'hunter2-key' } };
    const json = ['--progress', 'json', '-o', 'json'];
    const install = ['install', 'look', '-n', 'dev', '--param', `blob=@${cwd}/given.bin`];
    installed = await world.skycap([...install, ...given, ...json], options);
    const invoke = (action: string) =>
      world.skycap(['invoke', 'look', '--action', action, '-n', 'dev', ...given, ...json], options);
    together = await invoke('together');
    failed = await invoke('fails');
  });
  afterAll(() => world[Symbol.asyncDispose]());

  // The steps go on where something is not as it should be: each rule's own test says what.
  it('ends well', () => {
    for (const ran of [installed, together]) expectCode(ran, 0);
  });

  it('B60 works on a private copy of the bundle, without what the ignore files name', () => {
    const found = lines('look');
    expect(found).toEqual(expect.arrayContaining(['./kept', './public.key', './data/note', './.gitignore']));
    for (const gone of [
      './private',
      './private/file',
      './secret.key',
      './build.log',
      './.git',
      './.git/config',
    ])
      expect(found).not.toContain(gone);

    expect(printed(installed, 'change')).toBe('changed');
    expect(readFileSync(join(cwd, 'data/note'), 'utf8')).toBe('from the bundle\n');
    expect(readdirSync(cwd)).toContain('public.key');
    expect(readdirSync(cwd)).not.toContain('new');
  });

  it('B61 finds the files that images carry, later images over earlier ones, never over the bundle', () => {
    expect(lines('look').slice(0, 5)).toEqual([
      'from first',
      'from second',
      'from second',
      'from the bundle',
      'no unused',
    ]);
  });

  it('B62 cannot change the files that describe the run, nor find in them what it may not see', () => {
    const described = lines('describe');
    expect(described.filter((line) => line.endsWith('can be changed'))).toEqual([]);
    expect(described).toContain('name: view');
    const json = described.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
    expect(json).toEqual([
      expect.objectContaining({ name: 'view', version: '1.2.3' }),
      expect.objectContaining({ action: 'install', installation: 'look', parameters: expect.anything() }),
      expect.objectContaining({
        action: 'install',
        step: expect.objectContaining({ id: 'describe' }),
        parameters: expect.objectContaining({ region: 'eu', count: 7 }),
      }),
    ]);
    expect(lines('blind').slice(0, 2)).toEqual(['nothing', 'step blind']);
    expect(lines('trusted').slice(0, 3)).toEqual(['/cnab/claim.json', '/cnab/context.json', 'step trusted']);
  });

  it('B63 has a fresh folder for outputs, collected even when it fails', async () => {
    expect(lines('fresh').slice(0, 2)).toEqual(['0 files before', '1 files after']);

    expectCode(failed, 50);
    expect(printed(failed, 'breaks')).toBe('0 files before');
    const shown = await world.skycap(['output', 'show', 'late', '-i', 'look', '-n', 'dev']);
    expect(expectCode(shown, 0).stdout.trim()).toBe('written before the failure');
  });

  it('B64 has the environment of the action, and what it may see', () => {
    const environment = Object.fromEntries(
      lines('blind').map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
    );
    expect(environment).toMatchObject({
      CNAB_ACTION: 'install',
      CNAB_INSTALLATION_NAME: 'dev/look',
      CNAB_BUNDLE_NAME: 'view',
      CNAB_BUNDLE_VERSION: '1.2.3',
      CNAB_REVISION: expect.stringMatching(/^[0-9A-HJKMNP-TV-Z]{26}$/),
      CNAB_CLAIMS_VERSION: '1.0.0-DRAFT+b5ed2f3',
      PORTER_INSTALLATION_NAMESPACE: 'dev',
      PORTER_INSTALLATION_NAME: 'look',
      PORTER_INSTALLATION_ID: expect.stringMatching(/^[0-9A-HJKMNP-TV-Z]{26}$/),
      PORTER_VERBOSITY: 'info',
      REGION: 'eu',
      HOW_MANY: '7',
      WITH_DASH: '{"a":[1]}',
    });
    for (const other of ['API_KEY', 'TOKEN', 'SETTINGS', 'KUBECONFIG'])
      expect(environment).not.toHaveProperty(other);
    expect(lines('trusted')).toContain('the key is 11 long');
    expect(lines('trusted')).not.toContain('the key is 0 long');
  });

  it.each(['root', 'number', 'named', 'stranger'])(
    'B65 finds parameters and credentials as files, as %s',
    (user) => {
      expect(lines(user).slice(0, 5)).toEqual([
        'kubeconfig 400 mine 19',
        'token 400 mine 13',
        'blob 000102fffe0a0d00',
        'plain eu',
        'no empty',
      ]);
      expect(lines('without').slice(0, 2)).toEqual(['no kubeconfig', 'no token']);
      expect(lines('with-unset', failed)).toEqual(['LATER is empty', 'no later']);
    },
  );

  it('B66 edits a plain parameter file of the workspace, and finds a sensitive one only where it may see it', () => {
    const settings = (step: string) => lines(step).filter((line) => line.startsWith('settings: '));
    expect(settings('number')).toEqual(['settings: as given', 'settings: edited']);
    expect(settings('without')).toEqual(['settings: as given', 'settings: edited']);
    expect(settings('root')).toEqual(['settings: as given', 'settings: edited']);
    expect(lines('without')).toContain('conf: settings');
  });

  it('B67 finds its inputs as files', () => {
    expect(lines('fresh').slice(2)).toEqual(['ip: 10.0.0.1', 'secret: 14', 'files: ip secret']);
    expect(lines('without')).toContain('no inputs');
  });

  it('B67 keeps its inputs when another step that has them ends', () => {
    expect(lines('quick', together)).toEqual(['10.0.0.1']);
    expect(lines('slow', together)).toEqual(['10.0.0.1', '10.0.0.1']);
  });

  it('B68 reads outputs of the workspace at the end, and carries those of other paths from step to step', async () => {
    expect(lines('number')).toContain('carried');
    expect(lines('stranger')).toContain('carried from number');
    expect(lines('named')).toContain('carried from number from stranger');
    const listed = await world.skycap(['output', 'list', '-i', 'look', '-n', 'dev', '-o', 'json']);
    const outputs = expectCode(listed, 0).json<{ name: string; value: unknown }[]>();
    const value = (name: string) => outputs.find((output) => output.name === name)?.value;
    expect(value('elsewhere')).toBe('from number\nfrom stranger\nfrom named\nfrom root\n');
    expect(value('report')).toBe('empty\nnumber\nstranger\nnamed\nroot\n');
  });

  it('B69 lets every user read, write and remove everything in the workspace, and leaves nothing of another', () => {
    for (const user of ['number', 'stranger', 'named', 'root']) {
      const did = lines(user).filter((line) => line.startsWith('shared: '));
      expect(did, user).toEqual(
        ['read', 'written', 'into a folder', 'removed'].map((what) => `shared: ${what}`),
      );
    }

    // Unpacked layers belong to the ids of containers; all else, the failed run's workspace too, to whoever runs us.
    const paths = readdirSync(world.directory, { recursive: true, encoding: 'utf8' }).filter(
      (path) => !path.includes('/store/layers/'),
    );
    if (engine === 'oci-runtime') expect(paths.filter((path) => path.endsWith('/left/file'))).toHaveLength(1);
    const owners = new Set(paths.map((path) => lstatSync(join(world.directory, path)).uid));
    expect([...owners]).toEqual([process.getuid?.()]);
  });

  it('B70 fails where nobody wrote an output that has no default', async () => {
    const ran = await world.skycap(['invoke', 'look', '--action', 'forgets', '-n', 'dev'], { cwd });

    expectCode(ran, 50);
    expect(ran.stderr).toContain('[OUTPUT_MISSING] no step wrote the output forgotten');
    const shown = await world.skycap(['output', 'show', 'remembered', '-i', 'look', '-n', 'dev']);
    expect(expectCode(shown, 0).stdout.trim()).toBe('by default');
  });
});

/** As one of four users: what it finds, and what it does with what the others made. */
function asUser(user: string): string {
  return `
  - description: As ${user}
    id: ${user}
    credentials: [kubeconfig]
    parameters: [token]
    invoke:
      name: ${user === 'root' ? 'tools' : user}
      action:
        run: |
          mine() { [ "$(stat -c %u "$1")" = "$(id -u)" ] && echo mine || echo "of $(stat -c %u "$1")"; }
          echo "kubeconfig $(stat -c %a /home/user/.kube/config) $(mine /home/user/.kube/config) $(wc -c < /home/user/.kube/config)"
          echo "token $(stat -c %a /cnab/app/conf/token) $(mine /cnab/app/conf/token) $(wc -c < /cnab/app/conf/token)"
          echo "blob $(od -An -v -tx1 /etc/app/blob.bin | tr -d ' \\n')"
          echo "plain $(cat /etc/app/plain)"
          [ -e /etc/app/empty ] || echo no empty
          [ ${user} != number ] || echo edited >> conf/settings
          sed 's/^/settings: /' conf/settings
          echo carried $(cat /tmp/elsewhere/value 2>/dev/null)
          mkdir -p /tmp/elsewhere
          echo from ${user} >> /tmp/elsewhere/value
          echo ${user} >> data/report
          cat shared/file > /dev/null && echo shared: read
          echo ${user} >> shared/file && echo shared: written
          mkdir -m 700 shared/sub/of-${user} && echo ${user} > shared/sub/of-${user}/file && echo shared: into a folder
          rm -r shared/sub/old shared/sub/of-${user} && echo shared: removed
          rm -r shared
          umask 077
          mkdir -p shared/sub/old
          echo ${user} > shared/file
          echo ${user} > shared/sub/old/file
          true`;
}

/** Not for ever: where the workspace cannot be written, the other step cannot say anything. */
function until(file: string): string {
  return `i=0; while [ ! -e ${file} ] && [ $i -lt 1200 ]; do i=$((i+1)); sleep 0.1; done`;
}

function bundle(images: Readonly<Record<string, string>>): string {
  return `name: view
version: 1.2.3
description: What a step finds
invocationImages:
${Object.entries(images)
  .map(([name, image]) => `  - {name: ${name}, image: "${image}"}`)
  .join('\n')}
parameters:
  - {name: region, type: string, default: eu}
  - {name: count, type: integer, default: 7, env: HOW_MANY}
  - {name: with-dash, type: object, default: {a: [1]}}
  - {name: later, type: string, env: LATER, source: {output: nothing}}
  - {name: later-file, type: string, path: /etc/app/later, source: {output: nothing}}
  - {name: plain, type: string, default: eu, path: /etc/app/plain}
  - {name: blob, type: file, path: /etc/app/blob.bin}
  - {name: empty, type: file, path: /etc/app/empty, default: ""}
  - {name: settings, type: string, default: "as given\\n", path: /cnab/app/conf/settings}
  - {name: token, type: string, sensitive: true, path: /cnab/app/conf/token}
credentials:
  - {name: kubeconfig, path: /home/user/.kube/config}
  - {name: key, env: API_KEY}
outputs:
  - {name: nothing, type: string, applyTo: [never]}
  - {name: report, type: string, path: data/report}
  - {name: elsewhere, type: string, path: /tmp/elsewhere/value, applyTo: [install]}
  - {name: ip, type: string, applyTo: [install]}
  - {name: secret, type: string, sensitive: true, applyTo: [install]}
  - {name: late, type: string, applyTo: [fails]}
  - {name: forgotten, type: string, applyTo: [forgets]}
  - {name: remembered, type: string, default: by default, applyTo: [forgets]}
customActions:
  never: {description: Declares an output}
install:
  - description: Look
    id: look
    invoke:
      name: first
      action:
        run: |
          cat carried/first carried/second carried/both data/note
          [ -e carried/unused ] || echo no unused
          find . | sort
  - description: Change
    id: change
    invoke: {name: second, action: {run: set +e; cp data/note saved; echo changed | tee data/note new; rm public.key; mv saved data/note; true}}
  - description: Describe
    id: describe
    invoke:
      name: tools
      action:
        run: |
          head -n 1 /cnab/app/porter.yaml
          for file in /cnab/app/porter.yaml /cnab/bundle.json /cnab/claim.json /cnab/context.json; do
            if echo x 2>/dev/null >> $file; then echo "$file can be changed"; fi
            if rm $file 2>/dev/null; then echo "$file, removed, can be changed"; fi
            if mount -o remount,rw,bind $file 2>/dev/null; then echo "$file, remounted, can be changed"; fi
            case $file in *.json) tr '\\n' ' ' < $file; echo;; esac
          done
  - description: Blind
    id: blind
    invoke:
      name: tools
      action:
        run: |
          grep -rl 'hunter[2]' /cnab || echo nothing
          echo step $(sed -n '/"step"/,/"id"/s/.*"id": "\\(.*\\)".*/\\1/p' /cnab/context.json)
          env
  - description: Trusted
    id: trusted
    parameters: [token]
    credentials: [key]
    invoke:
      name: tools
      action:
        run: |
          grep -l 'hunter[2]' /cnab/*.json
          echo step $(sed -n '/"step"/,/"id"/s/.*"id": "\\(.*\\)".*/\\1/p' /cnab/context.json)
          echo "the key is \${#API_KEY} long"
          printf 10.0.0.1 > outputs/ip
          printf hunter%s 2-output > outputs/secret
          umask 077
          mkdir -p shared/sub/old
          echo x > shared/sub/old/file
          echo x > shared/file
          true
  - description: Fresh
    id: fresh
    inputs: [ip, secret]
    invoke:
      name: stranger
      action:
        run: |
          echo "$(ls /cnab/app/outputs | wc -l) files before"
          echo x > /cnab/app/outputs/unknown
          echo "$(ls /cnab/app/outputs | wc -l) files after"
          cd /cnab/app/inputs
          echo "ip: $(cat ip)"
          echo "secret: $(wc -c < secret)"
          echo files: $(ls)
${['number', 'stranger', 'named'].map(asUser).join('')}
  - description: Without
    id: without
    invoke:
      name: named
      action:
        run: |
          [ -e /home/user/.kube/config ] || echo no kubeconfig
          [ -e conf/token ] || echo no token
          sed 's/^/settings: /' conf/settings
          echo conf: $(ls conf)
          [ -e inputs ] || echo no inputs
${asUser('root')}
together:
  - description: Quick
    id: quick
    needs: []
    inputs: [ip]
    invoke: {name: stranger, action: {run: 'set +e; cat inputs/ip; ${until('begun')}'}}
  - description: Slow
    id: slow
    needs: []
    inputs: [ip]
    invoke: {name: stranger, action: {run: 'set +e; cat inputs/ip; echo; touch begun; ${until('ended')}; cat inputs/ip'}}
  - description: Says that the quick one is gone
    needs: [quick]
    invoke: {name: stranger, action: {run: touch ended}}
fails:
  - description: Without values
    id: with-unset
    invoke:
      name: stranger
      action:
        run: |
          umask 077
          mkdir left
          echo x > left/file
          [ "\${LATER-unset}" != '' ] || echo LATER is empty
          [ -e /etc/app/later ] || echo no later
  - description: Breaks
    id: breaks
    invoke:
      name: tools
      action:
        run: |
          echo "$(ls /cnab/app/outputs | wc -l) files before"
          printf 'written before the failure' > /cnab/app/outputs/late
          exit 3
forgets:
  - description: Forgets
    invoke: {name: tools, action: {command: ['true']}}
`.replaceAll('        run: |\n', '        run: |\n          set +e\n');
}
