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

interface StepJson {
  readonly id: string;
  readonly index: number;
  readonly state: string;
  readonly exitCode?: number;
}

describe.each(enginesToTest('oci-runtime', 'docker'))('what a step is, on %s', (engine) => {
  let world: World;
  let cwd: string;
  let installed: Ran;

  beforeAll(async () => {
    world = await makeWorld(engine);
    const tools = await world.image('tools:1');
    const entry = await world.image('entry:1', {
      busybox: true,
      config: { entrypoint: ['echo', 'from the entrypoint:'], cmd: ['by default'] },
      files: { 'bin/bash': { content: '#!/bin/sh\necho "this is bash"\nexec /bin/sh "$@"\n', mode: 0o755 } },
    });
    cwd = world.bundle({
      'sub/folder/note': 'x',
      'porter.yaml': bundle(tools, entry),
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    installed = expectCode(await world.skycap(['install', '-o', 'json', '--progress', 'json'], { cwd }), 0);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  const outputs = (): Record<string, unknown> =>
    Object.fromEntries(
      installed.json<{ outputs: { name: string; value: unknown }[] }>().outputs.map((o) => [o.name, o.value]),
    );

  it('B30 takes invoke as a list of maps and as one map', () => {
    expect(printed(installed, 'as-list')).toBe('listed in /cnab/app/sub');
    expect(printed(installed, 'as-map')).toBe(printed(installed, 'as-list'));
  });

  it('B31 replaces the entrypoint by command, and appends args to it', () => {
    expect(printed(installed, 'exec-form')).toBe('a  b $HOME *');
    expect(printed(installed, 'arguments')).toBe('from the entrypoint: a  b $HOME *');
    expect(printed(installed, 'nothing')).toBe('from the entrypoint: by default');
  });

  it('B32 runs a script by its #!, else by sh -e, else by the shell that is named', () => {
    expect(printed(installed, 'shebang')).toBe('42');
    expect(printed(installed, 'stops')).toBe('before');
    expect(printed(installed, 'with-bash')).toBe('this is bash\ninside');
  });

  it('B33 works in dir, below /cnab/app, and never out of it', async () => {
    expect(printed(installed, 'in-folder')).toBe('/cnab/app/sub/folder\nnote');

    const out = await world.skycap(
      ['install', 'out', '--param', 'folder=sub/../../../etc', '--progress', 'json'],
      {
        cwd,
      },
    );

    expect(out.code).not.toBe(0);
    expect(out.stderr).toContain('DIRECTORY_OUTSIDE');
    expect(out.stderr).toContain('step in-folder');
    expect(printed(out, 'in-folder')).toBe('');
  });

  it('B34 adds env to the environment of its container, and to no other', () => {
    expect(printed(installed, 'environment')).toBe('plain=v 1 region=eu');
    expect(printed(installed, 'no-environment')).toBe('plain=none');
  });

  it('B35 closes standard input and gives no terminal', () => {
    expect(printed(installed, 'input')).toBe('read: nothing\nno terminal');
  });

  it('B36 takes outputs from a file, by jsonPath, by regex and whole', () => {
    expect(outputs()).toMatchObject({
      file: 'from a file',
      ip: '10.0.0.7',
      ports: [80, 443],
      // Every group of every match, one a line.
      pairs: 'a\n1\nb\n2',
      whole: 'all of it\nand more\n',
    });
  });

  it('B36 ends the step where an output is not there', async () => {
    const ran = expectCode(await world.skycap(['invoke', 'steps', '--action', 'lacks'], { cwd }), 50);

    expect(ran.stderr).toContain('step lacks[0]: output gone: $.gone finds nothing in stdout');
  });

  it('B37 forgives by all, by exit codes and by words on stderr', () => {
    const steps = installed.json<{ steps: StepJson[] }>().steps;
    const forgiven = ['any', 'by-code', 'by-text', 'by-pattern'];
    expect(
      forgiven.map((id) => steps.find((step) => step.id === id)).map((step) => [step?.state, step?.exitCode]),
    ).toEqual([
      ['succeeded', 9],
      ['succeeded', 3],
      ['succeeded', 4],
      ['succeeded', 5],
    ]);
  });

  it('B37 does not forgive another code, another text or the text on stdout', async () => {
    // Side by side, so that the first failure keeps none from starting.
    expectCode(await world.skycap(['invoke', 'steps', '--action', 'unforgiven'], { cwd }), 50);

    const runs = expectCode(await world.skycap(['run', 'list', '-i', 'steps', '-o', 'json']), 0);
    const id = runs.json<{ id: string }[]>().at(-1)?.id ?? '';
    const { steps } = expectCode(await world.skycap(['run', 'show', id, '-o', 'json']), 0).json<{
      steps: StepJson[];
    }>();
    expect(steps.map((step) => [step.id, step.state, step.exitCode])).toEqual([
      ['other-code', 'failed', 6],
      ['other-text', 'failed', 6],
      ['other-pattern', 'failed', 6],
      ['text-on-stdout', 'failed', 6],
    ]);
  });

  it('B38 keeps suppressed output out of events and log, and takes outputs from it', async () => {
    const run = installed.json<{ id: string }>().id;
    const log = expectCode(await world.skycap(['run', 'logs', run]), 0);
    expect(log.stdout).toContain('a  b $HOME *');
    expect(installed.stderr + log.stdout).not.toContain('psst');
    expect(outputs().quiet).toBe('17');
  });

  it('B39 names a step without an id by its place', async () => {
    const steps = installed.json<{ steps: StepJson[] }>().steps;
    expect(steps.slice(0, 2).map((step) => step.id)).toEqual(['as-list', 'install[1]']);

    const alone = expectCode(
      await world.skycap(['step', 'run', 'install[1]', '-i', 'steps', '--progress', 'json'], { cwd }),
      0,
    );
    expect(printed(alone, 'install[1]')).toBe('no id');

    const failed = expectCode(await world.skycap(['invoke', 'steps', '--action', 'twice'], { cwd }), 50);
    expect(failed.stderr).toContain('step twice[1] ended with exit code 1');
    const resumed = expectCode(
      await world.skycap(
        ['invoke', 'steps', '--action', 'twice', '--resume', '--rerun', 'twice[1]', '--progress', 'json'],
        { cwd },
      ),
      0,
    );
    expect(printed(resumed, 'twice[0]')).toBe('');
    expect(printed(resumed, 'twice[1]')).toBe('second time');
  });
});

const bundle = (tools: string, entry: string): string => `name: steps
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}", network: none}
  - {name: entry, image: "${entry}", network: none}
parameters:
  - {name: folder, type: string, default: sub/folder}
  - {name: region, type: string, default: eu}
outputs:
  - {name: file, type: string, sensitive: false}
  - {name: ip, type: string, sensitive: false}
  - {name: ports, type: array, sensitive: false}
  - {name: pairs, type: string, sensitive: false}
  - {name: whole, type: string, sensitive: false}
  - {name: quiet, type: string, sensitive: false}
customActions:
  lacks: {modifies: false}
  unforgiven: {modifies: false}
  twice: {modifies: true}
install:
  - description: One map an item
    id: as-list
    invoke:
      - name: tools
      - action: {run: 'echo "listed in $PWD"'}
      - dir: sub
  - description: Without an id
    invoke: {name: tools, action: {run: echo no id}}
  - description: One map
    id: as-map
    invoke: {name: tools, dir: sub, action: {run: 'echo "listed in $PWD"'}}
  - description: Exec form
    id: exec-form
    invoke: {name: entry, action: {command: [echo, 'a  b', $HOME, '*']}}
  - description: Arguments
    id: arguments
    invoke: {name: entry, action: {args: ['a  b', $HOME, '*']}}
  - description: The image's own
    id: nothing
    invoke: {name: entry}
  - description: Shebang
    id: shebang
    invoke:
      name: tools
      action:
        run: |
          #!/bin/awk -f
          BEGIN { print 6 * 7 }
  - description: sh -e
    id: stops
    invoke:
      name: tools
      ignoreError: {all: true}
      action:
        run: |
          echo before
          false
          echo after
  - description: bash
    id: with-bash
    invoke: {name: entry, action: {shell: bash, run: echo inside}}
  - description: In a folder
    id: in-folder
    invoke: {name: tools, dir: "\${ bundle.parameters.folder }", action: {command: [sh, -c, 'pwd; ls']}}
  - description: Environment
    id: environment
    invoke:
      name: tools
      env: {PLAIN: v 1, REGION: "\${ bundle.parameters.region }"}
      action: {command: [sh, -c, 'echo "plain=$PLAIN region=$REGION"']}
  - description: Without
    id: no-environment
    invoke: {name: tools, action: {command: [sh, -c, 'echo "plain=\${PLAIN:-none}"']}}
  - description: Standard input
    id: input
    invoke:
      name: tools
      action:
        command: [sh, -c, 'text=$(cat); echo "read: \${text:-nothing}"; [ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo no terminal']
  - description: File
    id: from-file
    invoke:
      name: tools
      action: {command: [sh, -c, 'printf "from a file" > made']}
      outputs: [{name: file, path: /cnab/app/made}]
  - description: JSON
    id: from-json
    invoke:
      name: tools
      action: {command: [echo, '{"net": {"ip": "10.0.0.7", "ports": [80, 443]}}']}
      outputs:
        - {name: ip, jsonPath: $.net.ip}
        - {name: ports, jsonPath: $.net.ports}
  - description: Pattern
    id: from-pattern
    invoke:
      name: tools
      action: {command: [printf, 'a=1\\nnothing\\nb=2\\n']}
      outputs: [{name: pairs, regex: '(\\w)=(\\d)'}]
  - description: Whole
    id: from-all
    invoke:
      name: tools
      action: {command: [printf, 'all of it\\nand more\\n']}
      outputs: [{name: whole, stdout: true}]
  - description: Hushed
    id: hushed
    invoke:
      name: tools
      suppressOutput: true
      action: {command: [sh, -c, 'echo psst 17; echo psst too >&2']}
      outputs: [{name: quiet, regex: 'psst (\\d+)'}]
  - description: Any failure
    id: any
    invoke: {name: tools, ignoreError: {all: true}, action: {command: [sh, -c, exit 9]}}
  - description: By code
    id: by-code
    invoke: {name: tools, ignoreError: {exitCodes: [2, 3]}, action: {command: [sh, -c, exit 3]}}
  - description: By text
    id: by-text
    invoke:
      name: tools
      ignoreError: {output: {contains: [already exists]}}
      action: {command: [sh, -c, 'echo "it already exists" >&2; exit 4']}
  - description: By pattern
    id: by-pattern
    invoke:
      name: tools
      ignoreError: {output: {regex: ['exists (now|already)']}}
      action: {command: [sh, -c, 'echo "it exists now" >&2; exit 5']}
lacks:
  - description: Lacks an output
    invoke:
      name: tools
      action: {command: [echo, '{}']}
      outputs: [{name: gone, jsonPath: $.gone, sensitive: false}]
unforgiven:
  - description: Another code
    id: other-code
    needs: []
    invoke: {name: tools, ignoreError: {exitCodes: [3]}, action: {command: [sh, -c, exit 6]}}
  - description: Another text
    id: other-text
    needs: []
    invoke:
      name: tools
      ignoreError: {output: {contains: [already exists]}}
      action: {command: [sh, -c, 'echo "it exists already" >&2; exit 6']}
  - description: Another pattern
    id: other-pattern
    needs: []
    invoke:
      name: tools
      ignoreError: {output: {regex: ['exists (now|already)']}}
      action: {command: [sh, -c, 'echo "it exists" >&2; exit 6']}
  - description: The text on the other stream
    id: text-on-stdout
    needs: []
    invoke:
      name: tools
      ignoreError: {output: {contains: [already exists]}}
      action: {command: [sh, -c, 'echo "it already exists"; exit 6']}
twice:
  - description: First
    invoke: {name: tools, action: {command: [echo, first]}}
  - description: Fails once
    invoke: {name: tools, action: {command: [sh, -c, '[ -f seen ] && echo second time || { touch seen; exit 1; }']}}
`;
