import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeGate } from '../../src/testkit/gate.ts';
import { enginesToTest } from '../support/engines.ts';
import { type Watched, watchProcesses } from '../support/process-watch.ts';
import { formsIn, promisedForms } from '../support/secret-forms.ts';
import { expectCode, makeWorld, type Ran, type World } from '../support/world.ts';

/** With what each way of quoting changes, over three lines, so that no two forms are the same. */
function lines(tag: string): string {
  return `${tag} "one" 'two' $three & <four> \\five\n${tag}?second=line/of%it+ü\n${tag}#third`;
}

/** Each sensitive value and its public twin, which is used in exactly the same ways. */
const pairs = {
  environment: { secret: lines('hidden-environment'), twin: lines('public-environment') },
  file: { secret: lines('hidden-file'), twin: lines('public-file') },
  changed: { secret: lines('hidden-changed'), twin: lines('public-changed') },
  number: { secret: '7218093645', twin: '5518093645' },
  inObject: { secret: 'hidden-in-an-object/1', twin: 'public-in-an-object/1' },
  // Outputs that steps make of what stands in the bundle turned by 13 letters.
  outputFile: { secret: 'hidden-output-of-a-file', twin: 'public-output-of-a-file' },
  outputJson: { secret: 'hidden-output-of-json', twin: 'public-output-of-json' },
  outputPath: { secret: 'hidden-output-of-a-path', twin: 'public-output-of-a-path' },
} as const;

/** Sensitive without a twin: a credential is never public. */
const credentials = {
  env: lines('hidden-credential-env'),
  path: lines('hidden-credential-path'),
  command: lines('hidden-credential-command'),
} as const;

const wrong = { secret: 'hidden-not-in-the-schema', twin: 'public-not-in-the-schema' } as const;
const byDefault = { secret: 'hidden-by-default', twin: 'public-by-default' } as const;

const secrets: Readonly<Record<string, string>> = {
  ...Object.fromEntries(Object.entries(pairs).map(([name, { secret }]) => [name, secret])),
  ...Object.fromEntries(Object.entries(credentials).map(([name, secret]) => [`credential ${name}`, secret])),
  wrong: wrong.secret,
};

function turned(text: string): string {
  return text.replace(/[a-z]/g, (letter) =>
    String.fromCharCode(((letter.charCodeAt(0) - 97 + 13) % 26) + 97),
  );
}

/** Prints its first argument in every promised form, and with its lines one by one. */
const printForms = `#!/bin/sh
forms() {
  printf 'raw %s.\\n' "$1"
  printf 'base64 %s %s %s\\n' "$(printf %s "$1" | base64 -w0)" "$(printf 'x%s' "$1" | base64 -w0)" "$(printf 'xy%s' "$1" | base64 -w0)"
  printf 'base64url %s\\n' "$(printf '%s' "$1" | base64 -w0 | tr +/ -_)" "$(printf 'x%s' "$1" | base64 -w0 | tr +/ -_)" "$(printf 'xy%s' "$1" | base64 -w0 | tr +/ -_)"
  hex=$(printf %s "$1" | od -An -v -tx1 | tr -d ' \\n')
  printf 'hex %s\\n' "$hex"
  printf 'HEX %s\\n' "$(printf %s "$hex" | tr a-f A-F)"
  printf 'JSON "%s"\\n' "$(printf %s "$1" | sed 's/\\\\/\\\\\\\\/g; s/"/\\\\"/g' | awk 'NR > 1 { printf "\\\\n" } { printf "%s", $0 }')"
  printf "shell '%s'\\n" "$(printf %s "$1" | sed "s/'/'\\\\\\\\''/g")"
  printf 'URL %s\\n' "$(printf %s "$hex" | sed 's/../&\\n/g' | awk '
    BEGIN { for (i = 32; i < 127; i++) char[sprintf("%02x", i)] = sprintf("%c", i) }
    length($0) == 2 { if ($0 in char && char[$0] ~ /[A-Za-z0-9._~!*()\\047-]/) printf "%s", char[$0]; else printf "%%%s", toupper($0) }')"
  printf 'URL, strict %s\\n' "$(printf %s "$hex" | sed 's/../&\\n/g' | awk '
    BEGIN { for (i = 32; i < 127; i++) char[sprintf("%02x", i)] = sprintf("%c", i) }
    length($0) == 2 { if ($0 in char && char[$0] ~ /[A-Za-z0-9._~-]/) printf "%s", char[$0]; else printf "%%%s", toupper($0) }')"
}
for value; do
  forms "$value"
  printf '%s\\n' "$value" | while IFS= read -r line; do forms "$line"; done
  printf '%s\\n' "$value" >&2
done
`;

function porterYaml(image: string, shows: string, wait: string): string {
  const parameter = (name: string, keys: string): string =>
    `  - {name: hidden-${name}, ${keys}, sensitive: true}\n  - {name: public-${name}, ${keys}}\n`;
  const both = (text: (kind: 'hidden' | 'public') => string): string => text('hidden') + text('public');
  return `schemaVersion: 1.0.1
name: leak
version: 1.0.0
description: Uses each value in every way
invocationImages:
  - name: tools
    image: "${image}"
    credentials: [cred-env, cred-path, cred-command]
    parameters: [hidden-environment, hidden-file, hidden-number, hidden-object, hidden-default]
  - {name: shows, image: "${shows}"}
credentials:
  - {name: cred-env, env: CRED_ENV}
  - {name: cred-path, path: /home/nonroot/cred-path}
  - {name: cred-command, env: CRED_COMMAND}
parameters:
${parameter('environment', 'type: string')}  - {name: hidden-file, path: hidden-file.txt, sensitive: true}
  - {name: public-file, path: public-file.txt}
${parameter('number', 'type: integer')}${parameter('object', 'type: object, default: {}')}${parameter('short', 'type: string, maxLength: 5, default: x')}
  - {name: hidden-default, type: string, default: ${byDefault.secret}, sensitive: true}
  - {name: public-default, type: string, default: ${byDefault.twin}}
  - {name: fail, type: boolean, default: false}
  - {name: wait, type: boolean, default: false}
outputs:
  - {name: hidden-output-file, type: string, sensitive: true, applyTo: [install, upgrade]}
  - {name: public-output-file, type: string, applyTo: [install, upgrade]}
  - {name: hidden-output-json, type: object, sensitive: true, applyTo: [install, upgrade]}
  - {name: public-output-json, type: object, applyTo: [install, upgrade]}
  - {name: hidden-output-path, type: string, sensitive: true, path: /home/user/hidden-output, default: nothing-hidden}
  - {name: public-output-path, type: string, path: /home/user/public-output, default: nothing-public}
install: &steps
  - id: prints
    description: Print every form
    invoke:
      name: tools
      action:
        run: |
          /usr/bin/print-forms "$HIDDEN_ENVIRONMENT" "$PUBLIC_ENVIRONMENT" "$(cat hidden-file.txt)" "$(cat public-file.txt)"
          /usr/bin/print-forms "$HIDDEN_NUMBER" "$PUBLIC_NUMBER"
          /usr/bin/print-forms "$CRED_ENV" "$CRED_COMMAND" "$(cat /home/nonroot/cred-path)"
          echo "$HIDDEN_OBJECT $PUBLIC_OBJECT"
          env; cat /cnab/claim.json /cnab/context.json /cnab/bundle.json
          if [ "$WAIT" = true ]; then echo waiting; ${wait}; fi
  - id: argument
    description: Deploy \${ bundle.parameters.hidden-environment } and \${ bundle.parameters.public-environment }
    invoke:
      name: tools
      action:
        command: [/usr/bin/print-forms, "\${ bundle.parameters.hidden-environment }", "\${ bundle.parameters.public-environment }", "\${ bundle.credentials.cred-env }"]
  - id: script
    description: In a script
    invoke:
      name: tools
      env: {GIVEN_HIDDEN: "\${ bundle.parameters.hidden-environment }", GIVEN_PUBLIC: "\${ bundle.parameters.public-environment }"}
      action:
        run: |
          echo "\${ bundle.parameters.hidden-environment } \${ bundle.parameters.public-environment }"
          echo "\${ bundle.credentials.cred-command }" "$GIVEN_HIDDEN" "$GIVEN_PUBLIC"
  - id: inputs
    description: By with
    invoke:
      name: shows
      action:
        with:
          hidden: "\${ bundle.parameters.hidden-environment }"
          public: "\${ bundle.parameters.public-environment }"
          nested: {hidden: ["\${ bundle.parameters.hidden-number }"], public: ["\${ bundle.parameters.public-number }"]}
  - id: writes
    description: Write outputs for \${ bundle.parameters.public-environment }
    invoke:
      name: tools
      action:
        run: |
${both((kind) => {
  const [file, path, json] = (['outputFile', 'outputPath', 'outputJson'] as const).map((name) =>
    turned(pairs[name][kind === 'hidden' ? 'secret' : 'twin']),
  );
  return `          printf %s ${file} | tr a-z n-za-m > /cnab/app/outputs/${kind}-output-file
          printf %s ${path} | tr a-z n-za-m > /home/user/${kind}-output
          ${kind}=$(echo ${json} | tr a-z n-za-m)
`;
})}          echo "early $hidden $public" >&2
          echo "{\\"h\\": {\\"b\\": \\"$hidden\\"}, \\"p\\": {\\"b\\": \\"$public\\"}}"
      outputs:
        - {name: hidden-output-json, jsonPath: $.h}
        - {name: public-output-json, jsonPath: $.p}
  - id: uses
    description: Use outputs \${ bundle.outputs.hidden-output-file } and \${ bundle.outputs.public-output-file }
    invoke:
      name: tools
      action:
        run: |
          /usr/bin/print-forms "\${ bundle.outputs.hidden-output-file }" "\${ bundle.outputs.public-output-file }"
          /usr/bin/print-forms "$(cat /home/user/hidden-output)" "$(cat /home/user/public-output)"
          echo "\${ bundle.outputs.hidden-output-json } \${ bundle.outputs.public-output-json }"
          if [ "$FAIL" = true ]; then echo "failing: $HIDDEN_ENVIRONMENT $PUBLIC_ENVIRONMENT" >&2; exit 3; fi
upgrade: *steps
uninstall:
  - description: Away
    invoke: {name: tools, action: {run: 'echo "$HIDDEN_ENVIRONMENT $PUBLIC_ENVIRONMENT"'}}
`;
}

describe.each(enginesToTest('oci-runtime', 'docker'))('what is left behind on %s', (engine) => {
  let world: World;
  let cwd: string;
  let inputs: string[];
  const env = { USER_CRED: credentials.env };
  const gate = makeGate();
  /** Every place with what was found there. */
  const places = new Map<string, Buffer>();
  /** Command lines and environments of everything that ran on this host meanwhile. */
  let watched: Watched;

  function look(place: string, ran: Ran): Ran {
    places.set(`${place}, stdout`, Buffer.from(ran.stdout));
    places.set(`${place}, stderr`, Buffer.from(ran.stderr));
    return ran;
  }

  async function command(place: string, code: number, args: readonly string[]): Promise<Ran> {
    const ran = look(place, await world.skycap(args, { cwd, env }));
    return expectCode(ran, code);
  }

  /** Folders on disk that are ours; what the user wrote there (inputs, the bundle) does not count. */
  function lookAtDisk(when: string, folders: readonly string[]): void {
    for (const folder of folders) {
      places.set(`${when}, ${folder.replace(world.directory, '')}`, bytesBelow(folder));
    }
  }

  function onDisk(): string[] {
    const { HOME, XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME, TMPDIR } = world.env;
    return [HOME, XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME, TMPDIR].map(String);
  }

  beforeAll(async () => {
    world = await makeWorld(engine);
    const image = await world.image('acme/tools:1', {
      busybox: true,
      files: { 'bin/print-forms': { content: printForms, mode: 0o755 } },
    });
    const shows = await world.image('acme/shows:1', {
      busybox: true,
      config: {
        entrypoint: ['/bin/sh', '-c', 'echo "$INPUT_HIDDEN $INPUT_PUBLIC $INPUT_NESTED"; cat /cnab/*.json'],
      },
    });
    const given = join(world.directory, 'given');
    mkdirSync(given);
    const put = (name: string, content: string): string => {
      writeFileSync(join(given, name), content);
      return join(given, name);
    };
    cwd = world.bundle({ 'porter.yaml': porterYaml(image, shows, gate.wait) });
    const values = (kind: 'secret' | 'twin', prefix: string): string[] => [
      '--param',
      `${prefix}-environment=@${put(`${prefix}-environment`, pairs.environment[kind])}`,
      '--param',
      `${prefix}-file=@${put(`${prefix}-file`, pairs.file[kind])}`,
      '--param',
      `${prefix}-number=@${put(`${prefix}-number`, pairs.number[kind])}`,
      '--params-file',
      put(`${prefix}.yaml`, `${prefix}-object: {inner: ["${pairs.inObject[kind]}"]}\n`),
    ];
    inputs = [
      ...values('secret', 'hidden'),
      ...values('twin', 'public'),
      '--credential',
      'cred-env=env:USER_CRED',
      '--credential',
      `cred-path=path:${put('cred-path', credentials.path)}`,
      '--credential',
      `cred-command=command:cat ${put('cred-command', credentials.command)}`,
    ];
    const watch = watchProcesses();
    try {
      await command('lint', 0, ['lint']);
      await command('lint as JSON', 0, ['lint', '-o', 'json']);
      await command('lock', 0, ['lock']);
      await command('explain', 0, ['explain']);
      await command('explain as JSON', 0, ['explain', '-o', 'json']);
      await command('dry run', 0, ['install', ...inputs, '--dry-run']);
      await command('plan', 0, ['install', ...inputs, '--dry-run', '-o', 'json']);
      for (const kind of ['short', 'number']) {
        for (const [what, value] of Object.entries(wrong)) {
          const prefix = what === 'secret' ? 'hidden' : 'public';
          const given = `${prefix}-${kind}=@${put(`${prefix}-${kind}-wrong`, value)}`;
          await command(`error of ${prefix} ${kind}`, 2, ['install', ...inputs, '--param', given]);
        }
      }
      await command('failing install', 50, ['install', ...inputs, '--param', 'fail=true', '--debug']);
      const waiting = world.start(
        [
          'install',
          ...inputs,
          '--param',
          'fail=false',
          '--param',
          'wait=true',
          '--progress',
          'json',
          '-o',
          'json',
        ],
        { cwd, env },
      );
      // Its last forms are printed, and what it prints lies wherever it lies.
      await waiting.said('waiting');
      lookAtDisk('while a step runs', onDisk());
      await gate.open();
      expectCode(look('install', await waiting.ended), 0);
      writeFileSync(join(given, 'hidden-environment'), pairs.changed.secret);
      writeFileSync(join(given, 'public-environment'), pairs.changed.twin);
      await command('upgrade', 0, [
        'upgrade',
        ...inputs,
        '--param',
        'wait=false',
        '--param',
        `public-default=${pairs.inObject.twin}`,
      ]);
      const runs = await command('run list', 0, ['run', 'list', 'leak', '-o', 'json']);
      for (const { id: run } of runs.json<{ id: string }[]>()) {
        await command(`run show ${run}`, 0, ['run', 'show', run, '-o', 'json']);
        await command(`run logs ${run}`, 0, ['run', 'logs', run]);
        await command(`run logs as JSON ${run}`, 0, ['run', 'logs', run, '-o', 'json']);
      }
      await command('output list', 0, ['output', 'list', '-i', 'leak']);
      await command('output list as JSON', 0, ['output', 'list', '-i', 'leak', '-o', 'json']);
      await command('output show', 0, ['output', 'show', 'public-output-file', '-i', 'leak']);
      await command('installation show', 0, ['installation', 'show', 'leak']);
      await command('installation show as JSON', 0, ['installation', 'show', 'leak', '-o', 'json']);
      await command('installation list', 0, ['installation', 'list', '-o', 'json']);
      lookAtDisk('between runs', [...onDisk(), String(world.env.XDG_RUNTIME_DIR)]);
      await command('uninstall', 0, ['uninstall', ...inputs]);
    } finally {
      watched = await watch.stop();
    }
    lookAtDisk('at the end', [...onDisk(), String(world.env.XDG_RUNTIME_DIR)]);
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  function has(place: RegExp, value: string): boolean {
    return [...places].some(([name, bytes]) => place.test(name) && formsIn(bytes, value).length > 0);
  }

  it('S20 finds the public twin in each place that shows values', () => {
    expect(has(/^explain, stdout/, byDefault.twin)).toBe(true);
    expect(has(/^explain as JSON, stdout/, byDefault.twin)).toBe(true);
    expect(has(/^error of public number, stderr/, wrong.twin)).toBe(true);
    for (const place of [
      /^plan, stdout/,
      /^failing install, stderr/,
      /^install, stderr/,
      /^run logs .*stdout/,
      /^run logs as JSON .*stdout/,
      /^run show .*stdout/,
    ])
      expect([place, has(place, pairs.environment.twin)]).toEqual([place, true]);
    for (const place of [/^install, stdout/, /^output list, stdout/, /^output show, stdout/])
      expect([place, has(place, pairs.outputFile.twin)]).toEqual([place, true]);
    for (const place of [/^while a step runs, .*data/, /^between runs, .*data/, /^at the end, .*data/])
      expect([place, has(place, pairs.environment.twin)]).toEqual([place, true]);
    expect(has(/^installation show as JSON, stdout/, pairs.number.twin)).toBe(true);
    expect(watched.commandLines.some((line) => line.includes(pairs.inObject.twin))).toBe(true);
    expect(watched.environments.some(({ text }) => text.includes(credentials.env))).toBe(true);
    expect(watched.programs).toEqual(
      expect.arrayContaining(engine === 'docker' ? ['node'] : ['crun', 'slirp4netns']),
    );
  });

  it('S20 S21 finds every promised form of the twins in log and events', () => {
    const twins = [pairs.environment, pairs.file, pairs.number, pairs.outputFile, pairs.outputPath];
    for (const place of ['run logs', 'install, stderr']) {
      const bytes = Buffer.concat([...places].filter(([name]) => name.startsWith(place)).map(([, b]) => b));
      const text = Buffer.from(readable(bytes));
      for (const { twin } of twins) {
        const found = formsIn(text, twin);
        const missing = promisedForms(twin).filter((form) => !found.includes(form.name));
        expect(missing.map((form) => `${place}: ${form.name}: ${form.bytes.toString()}`)).toEqual([]);
      }
    }
  });

  it('S20 S21 finds no promised form of a sensitive value anywhere', () => {
    const found: string[] = [];
    const disk = /^(while a step runs|between runs|at the end), /;
    for (const [place, bytes] of places) {
      for (const [name, value] of Object.entries(secrets)) {
        for (const form of formsIn(bytes, value)) found.push(`${place}: ${name}: ${form}`);
        if (disk.test(place)) continue;
        // Once more without the JSON around each line of an event.
        for (const form of formsIn(Buffer.from(readable(bytes)), value))
          found.push(`${place}, unwrapped: ${name}: ${form}`);
      }
      if (place.startsWith('explain') && bytes.includes(byDefault.secret)) found.push(`${place}: default`);
    }
    expect(found).toEqual([]);
  });

  it('S20 finds no sensitive value in command lines, nor in environments but the one that the user made', () => {
    const found: string[] = [];
    for (const [name, value] of Object.entries(secrets)) {
      for (const line of watched.commandLines)
        for (const form of formsIn(Buffer.from(line), value))
          found.push(`${name}: ${form}: ${line.slice(0, 120)}`);
      for (const { program, text } of watched.environments) {
        // The command line that got it from the user, and the user's own command for another credential.
        const isGiven = ['skycap', 'node', 'sh', 'cat'].includes(program);
        if (isGiven && name === 'credential env') continue;
        for (const form of formsIn(Buffer.from(text), value))
          found.push(`${name}: ${form}: environment of ${program}`);
      }
    }
    expect(found).toEqual([]);
  });
});

/** Names and contents of all files; one that has several names (unpacked tools) only once. */
function bytesBelow(folder: string): Buffer {
  const seen = new Set<string>();
  const parts: Buffer[] = [];
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    parts.push(Buffer.from(`${path}\n`));
    if (!entry.isFile()) continue;
    const { dev, ino } = statSync(path);
    if (!seen.has(`${dev} ${ino}`)) parts.push(readFileSync(path));
    seen.add(`${dev} ${ino}`);
  }
  return Buffer.concat(parts);
}

/** Texts of JSON events put together again; other lines as they are. */
function readable(bytes: Buffer): string {
  return bytes
    .toString()
    .split('\n')
    .map((line) => {
      try {
        const event = JSON.parse(line) as { text?: string };
        return typeof event.text === 'string' ? event.text : `${line}\n`;
      } catch {
        return `${line}\n`;
      }
    })
    .join('');
}
