import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { printed } from '../support/printed.ts';
import { expectCode, makeWorld, type Ran, type World } from '../support/world.ts';

describe.each(enginesToTest('oci-runtime', 'docker'))('state on %s', (engine) => {
  let world: World;
  let tools: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    tools = await world.image('tools:1', {
      busybox: true,
      config: { user: '1000' },
      files: { 'cnab/app/carried': 'from the image\n' },
    });
  });
  afterAll(() => world[Symbol.asyncDispose]());

  async function locked(files: Readonly<Record<string, string>>): Promise<string> {
    const cwd = world.bundle(files);
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    return cwd;
  }

  const run = (cwd: string, ...args: string[]): Promise<Ran> =>
    world.skycap([...args, '--progress', 'json'], { cwd });

  describe('of a bundle without `state:`', () => {
    let cwd: string;
    let found: readonly string[];

    beforeAll(async () => {
      cwd = await locked({
        'porter.yaml': byDefault(tools),
        shipped: 'version 1\n',
        untouched: 'version 1\n',
      });
      expectCode(await run(cwd, 'install', '--param', 'fail=true'), 50);
      const again = expectCode(await run(cwd, 'install', '--force', '--param', 'fail=false'), 0);
      found = printed(again, 'look').split('\n');
    });

    it('B75 keeps what a failed run added or changed, for the next action', () => {
      expect(found).toEqual(
        expect.arrayContaining([
          './added/deep/file 640 once',
          './added/deep/program 755 #!/bin/sh',
          './carried 644 changed',
          './shipped 644 changed by a run',
          './untouched 644 version 1',
          './added/link -> deep/file',
          './added/empty is empty',
        ]),
      );
      expect(found).not.toContain('./outputs/value 644 an output');
    });

    it('B79 restores state for an action that does not modify, and does not save it', async () => {
      const looked = expectCode(await run(cwd, 'invoke', 'kept', '--action', 'peek'), 0);
      expect(printed(looked, 'look').split('\n')).toEqual(
        expect.arrayContaining(['./added/deep/file 640 twice', './shipped 644 changed by a run']),
      );

      const upgraded = expectCode(await run(cwd, 'upgrade'), 0);
      expect(printed(upgraded, 'look')).toContain('./added/deep/file 640 twice');
      expect(printed(upgraded, 'look')).not.toContain('ghost');
    });

    it('B78 lets a file of a new bundle version win over what a run had changed, and says so', async () => {
      writeFileSync(join(cwd, 'shipped'), 'version 2\n');
      const upgraded = expectCode(await run(cwd, 'upgrade'), 0);

      expect(printed(upgraded, 'look').split('\n')).toEqual(
        expect.arrayContaining(['./shipped 644 version 2', './added/deep/file 640 twice']),
      );
      const notices = upgraded.events.filter((event) => event.code === 'state-replaced');
      expect(notices).toEqual([expect.objectContaining({ message: expect.stringMatching(/^shipped: /) })]);
    });
  });

  it('B76 keeps what `state:` lists, saved after every step; B78 that wins over a new version', async () => {
    const cwd = await locked({
      'porter.yaml': byPaths(tools),
      shipped: 'version 1\n',
      unlisted: 'version 1\n',
    });
    const going = world.start(['install', '--progress', 'json'], { cwd });
    await going.said('now waiting');
    const database = new DatabaseSync(join(world.env.XDG_DATA_HOME as string, 'skycap/state/state.db'), {
      readOnly: true,
    });
    const saved = database
      .prepare('SELECT run_id FROM bundle_state JOIN runs ON runs.id = run_id WHERE installation = ?')
      .all('listed');
    database.close();
    going.process.kill('SIGINT');
    expectCode(await going.ended, 130);
    expect(saved).toHaveLength(1);

    writeFileSync(join(cwd, 'shipped'), 'version 2\n');
    const again = expectCode(await run(cwd, 'install', '--force', '--param', 'wait=false'), 0);
    expect(printed(again, 'look').split('\n')).toEqual([
      'kept 1',
      'folder/kept 1',
      '/tmp/database/kept 1',
      'shipped version 1 and changed',
      'unlisted version 1',
      'no added',
    ]);
    expect(again.events.filter((event) => event.code === 'state-replaced')).toEqual([]);
  });

  it('B76 never puts what it keeps of places outside the workspace into the workspace', async () => {
    const cwd = await locked({ 'porter.yaml': outside(tools) });
    const first = expectCode(await run(cwd, 'install'), 0);
    const second = expectCode(await run(cwd, 'upgrade'), 0);

    expect(printed(first, 'watch')).toBe('watched\nended');
    expect(printed(second, 'watch')).toBe('watched\nended');
    expect(printed(second, 'last')).toBe('12000000');
  });

  it('B76 keeps nothing with an empty `state:`', async () => {
    const cwd = await locked({
      'porter.yaml': `name: off
version: 1.0.0
invocationImages: [{name: tools, image: "${tools}"}]
state: []
install:
  - {description: Write, invoke: {name: tools, action: {run: echo x > file}}}
upgrade:
  - {description: Look, id: look, invoke: {name: tools, action: {run: '[ -e file ] || echo nothing'}}}
`,
    });
    expectCode(await run(cwd, 'install'), 0);
    expect(printed(expectCode(await run(cwd, 'upgrade'), 0), 'look')).toBe('nothing');
  });
});

// What a run changed is counted above the engines.
describe.each(enginesToTest('oci-runtime'))('too much state on %s', (engine) => {
  it('B77 WORKSPACE_TOO_LARGE refuses more than 1 GiB of changes, names the largest, and loses nothing', async () => {
    await using world = await makeWorld(engine);
    const tools = await world.image('tools:1');
    const cwd = world.bundle({ 'porter.yaml': growing(tools) });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    expectCode(await world.skycap(['install'], { cwd }), 0);

    const large = await world.skycap(['upgrade'], { cwd });
    expectCode(large, 60);
    expect(large.stderr).toContain('WORKSPACE_TOO_LARGE');
    expect(large.stderr).toMatch(/the largest: grown\/huge \(1153433600\), small \(6\)/);
    expect(large.stderr).toContain('state:');

    const failed = await world.skycap(['upgrade', '--param', 'code=3'], { cwd });
    expectCode(failed, 50);
    expect(failed.stderr).toContain('ended with exit code 3');
    expect(failed.stderr).toContain('grown/huge');

    const looked = expectCode(
      await world.skycap(['invoke', '--action', 'peek', '--progress', 'json'], { cwd }),
      0,
    );
    expect(printed(looked, 'look')).toBe('small installed');
    expect(readFileSync(join(cwd, 'porter.yaml'), 'utf8')).toBe(growing(tools));
  });
});

function byDefault(tools: string): string {
  const look = `
  - description: Look
    id: look
    invoke:
      name: tools
      action:
        run: |
          find . -type f | while read file; do echo "$file $(stat -c %a $file) $(head -n 1 $file)"; done
          find . -type l | while read link; do echo "$link -> $(readlink $link)"; done
          find . -type d -empty | while read folder; do echo "$folder is empty"; done`;
  return `name: kept
version: 1.0.0
invocationImages: [{name: tools, image: "${tools}"}]
parameters: [{name: fail, type: boolean, default: false}]
customActions:
  peek: {description: Looks, modifies: false}
install:${look}
  - description: Change
    invoke:
      name: tools
      env: {FAIL: "\${ bundle.parameters.fail }"}
      action:
        run: |
          mkdir -p added/deep added/empty
          umask 027
          if [ -e added/deep/file ]; then echo twice > added/deep/file; else echo once > added/deep/file; fi
          echo '#!/bin/sh' > added/deep/program
          chmod 755 added/deep/program
          ln -sf deep/file added/link
          echo changed > carried
          echo changed by a run > shipped
          echo an output > outputs/value
          [ $FAIL = false ]
upgrade:${look}
peek:${look}
  - description: Haunt
    invoke: {name: tools, action: {run: echo x > ghost; echo x > added/deep/file}}
`;
}

function byPaths(tools: string): string {
  return `name: listed
version: 1.0.0
invocationImages: [{name: tools, image: "${tools}"}]
parameters: [{name: wait, type: boolean, default: true}]
state:
  - {name: file, path: kept}
  - {name: folder, path: folder}
  - {name: outside, path: /tmp/database}
  - {name: shipped, path: shipped}
install:
  - description: Look
    id: look
    invoke:
      name: tools
      action:
        run: |
          for file in kept folder/kept /tmp/database/kept shipped unlisted; do
            [ ! -e $file ] || echo $file $(cat $file)
          done
          [ -e added ] || echo no added
  - description: Write
    invoke:
      name: tools
      action:
        run: |
          mkdir -p folder /tmp/database
          echo 1 | tee kept folder/kept /tmp/database/kept added
          echo and changed | tee -a shipped unlisted
  - description: Wait
    when: \${ bundle.parameters.wait }
    invoke: {name: tools, action: {run: trap 'exit 1' TERM; echo now waiting; sleep 600 & wait}}
`;
}

/** One step looks all the time what is in the workspace, while others change a large file that is kept. */
function outside(tools: string): string {
  const write = (id: string, needs: string): string => `
  - {description: Write, id: ${id}, needs: [${needs}], invoke: {name: tools, action: {run: "mkdir -p /tmp/database; head -c 2000000 /dev/zero >> /tmp/database/secret"}}}`;
  const steps = `
  - description: Watch
    id: watch
    needs: []
    timeout: 10m
    invoke:
      name: tools
      action:
        run: |
          echo watched
          until [ -e done ]; do
            for name in * .*; do
              case $name in
                .|..|porter.yaml|porter.lock|cnab|carried|outputs|inputs|done) ;;
                *) echo "saw $name" ;;
              esac
            done
          done
          echo ended${write('one', '')}${write('two', 'one')}${write('three', 'two')}
  - {description: Last, id: last, needs: [three], invoke: {name: tools, action: {run: 'wc -c < /tmp/database/secret; touch done'}}}`;
  return `name: outside
version: 1.0.0
invocationImages: [{name: tools, image: "${tools}"}]
state: [{name: database, path: /tmp/database}]
install:${steps}
upgrade:${steps}
`;
}

function growing(tools: string): string {
  return `name: growing
version: 1.0.0
invocationImages: [{name: tools, image: "${tools}"}]
parameters: [{name: code, type: integer, default: 0}]
customActions:
  peek: {description: Looks, modifies: false}
install:
  - {description: Write, invoke: {name: tools, action: {run: echo installed > small}}}
upgrade:
  - description: Grow
    invoke:
      name: tools
      env: {CODE: "\${ bundle.parameters.code }"}
      action: {run: 'mkdir grown; truncate -s 1100M grown/huge; echo grown > small; exit $CODE'}
peek:
  - {description: Look, id: look, invoke: {name: tools, action: {run: 'echo $(find . -name small -o -name huge | cut -c3-) $(cat small)'}}}
`;
}
