import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Home, makeHome, program, root } from '../support/skycap.ts';

let home: Home;

beforeAll(async () => {
  home = await makeHome();
});

afterAll(async () => {
  await home[Symbol.asyncDispose]();
});

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };

describe('skycap version', () => {
  test.each([['version'], ['--version'], ['-v']])('%s', async (word) => {
    expect(await home.run([word])).toEqual({
      exitCode: 0,
      signal: null,
      stdout: `skycap ${version}\n`,
      stderr: '',
    });
  });

  test('through links, relative and absolute', async () => {
    symlinkSync(program, join(home.folder, 'one'));
    symlinkSync('one', join(home.folder, 'two'));
    const { stdout } = await home.run(['version'], { program: join(home.folder, 'two') });
    expect(stdout).toBe(`skycap ${version}\n`);
  });

  test('has its formats', async () => {
    expect(JSON.parse((await home.run(['version', '-o', 'json'])).stdout)).toEqual({ version });
    expect((await home.run(['version'], { env: { SKYCAP_OUTPUT: 'yaml' } })).stdout).toMatch(/^version: /);
  });

  test('the entry imports nothing but node:fs', () => {
    const { outputs } = JSON.parse(readFileSync(join(root, 'dist/meta.json'), 'utf8')) as {
      outputs: Record<string, { imports: { path: string; kind: string }[]; inputs: Record<string, unknown> }>;
    };
    const [, entry] = Object.entries(outputs).find(([path]) => path.endsWith('/skycap.js')) ?? [];
    const eager = (entry?.imports ?? [])
      .filter(({ kind }) => kind === 'import-statement')
      .map(({ path }) => path);
    expect(eager.filter((path) => !path.includes('chunks/'))).toEqual(['node:fs']);
    const chunks = eager.filter((path) => path.includes('chunks/')).map((path) => outputs[path]);
    const inputs = [entry, ...chunks].flatMap((output) => Object.keys(output?.inputs ?? {}));
    expect(inputs.sort()).toEqual(['src/cli/main.ts']);
    expect(
      chunks.flatMap((chunk) => chunk?.imports.filter(({ kind }) => kind === 'import-statement') ?? []),
    ).toEqual([]);
  });

  test.each(['000', '077'])(
    'keeps compiled code where nobody else can write with umask %s',
    async (umask) => {
      const cache = join(home.folder, `cache-${umask}`);
      const made = spawnSync('sh', ['-c', `umask ${umask}; exec "$0" schema`, program], {
        env: { ...home.env, XDG_CACHE_HOME: cache },
      });
      expect(made.status).toBe(0);
      const modes = ['', 'skycap', 'skycap/compiled'].map((path) => statSync(join(cache, path)).mode & 0o777);
      expect(modes).toEqual([0o700, 0o700, 0o700]);
      // What a command makes for others goes by its caller's umask again.
      const app = join(home.folder, `app-${umask}`);
      spawnSync('sh', ['-c', `umask ${umask}; exec "$0" create "$1"`, program, app], { env: home.env });
      expect(statSync(join(app, 'porter.yaml')).mode & 0o777).toBe(umask === '000' ? 0o666 : 0o600);
    },
  );

  test('loads no module of Node that an empty program does not load', () => {
    const url = pathToFileURL(join(root, 'dist/skycap.js')).href;
    const script = `
      const { writeFileSync } = await import('node:fs');
      const before = new Set(process.moduleLoadList);
      process.argv = [process.argv[0], 'skycap', 'version'];
      await import(${JSON.stringify(url)});
      writeFileSync(2, JSON.stringify(process.moduleLoadList.filter((name) => !before.has(name))));`;
    const out = join(home.folder, 'loaded');
    execFileSync('/bin/sh', [
      '-c',
      `"$0" --input-type=module -e "$1" 2> "$2"`,
      process.execPath,
      script,
      out,
    ]);
    expect(JSON.parse(readFileSync(out, 'utf8'))).toEqual([]);
  });
});

describe('skycap lint', () => {
  test('of a plain bundle loads three files of ours', () => {
    writeFileSync(join(home.folder, 'plain.yaml'), 'name: plain\nversion: 1.0.0\n');
    const script = `
      const { registerHooks } = await import('node:module');
      const { writeSync } = await import('node:fs');
      registerHooks({ load(url, context, next) { writeSync(2, url + '\\n'); return next(url, context); } });
      process.argv = [process.argv[0], 'skycap', 'lint', '-f', ${JSON.stringify(join(home.folder, 'plain.yaml'))}];
      await import(${JSON.stringify(pathToFileURL(join(root, 'dist/skycap.js')).href)});`;
    const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
      encoding: 'utf8',
      timeout: 120_000,
    });
    const loaded = stderr
      .trim()
      .split('\n')
      .filter((line) => line.startsWith('file:'));
    expect(loaded.map((url) => url.slice(url.lastIndexOf('/') + 1))).toEqual([
      'skycap.js',
      'start.js',
      'bundle.js',
    ]);
  });
});

describe('how it answers', () => {
  test('help goes to stdout, with exit 0', async () => {
    const { exitCode, stdout, stderr } = await home.run([]);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(stdout).toContain('skycap COMMAND --help');
  });

  test('errors go to stderr, with the code, what to do, and nothing on stdout', async () => {
    const ran = await home.run(['instal']);
    expect(ran).toMatchObject({ exitCode: 2, stdout: '' });
    expect(ran.stderr).toBe(
      'error [USAGE] there is no command "instal"\n  hint: did you mean skycap install?\n',
    );
  });

  test('errors are JSON where results would be', async () => {
    const ran = await home.run(['installation', 'show', 'nobody', '-o', 'json']);
    expect(ran).toMatchObject({ exitCode: 67, stdout: '' });
    expect(JSON.parse(ran.stderr)).toMatchObject({
      error: { code: 'STATE_NOT_FOUND', exitCode: 67, hint: expect.any(String) },
    });
  });

  test('NO_COLOR and FORCE_COLOR', async () => {
    expect((await home.run(['nonsense'], { env: { FORCE_COLOR: '1' } })).stderr).toContain('\u001b[31m');
    expect((await home.run(['nonsense'], { env: { FORCE_COLOR: '1', NO_COLOR: '1' } })).stderr).not.toContain(
      '\u001b',
    );
  });

  test('a prune that removes nothing says what stays, unless it was told', async () => {
    const nothing = 'removed 0 blobs and 0 layers, 0 B freed';
    expect(await home.run(['image', 'prune'])).toMatchObject({
      exitCode: 0,
      stdout: `${nothing}; what was used within a day stays, see --older-than\n`,
    });
    expect(await home.run(['image', 'prune', '--older-than', '7d'])).toMatchObject({
      exitCode: 0,
      stdout: `${nothing}\n`,
    });
  });

  test('a shell takes the completion scripts', async () => {
    const { stdout } = await home.run(['completion', 'bash']);
    const script = `${stdout}\nCOMP_WORDS=(skycap image p); COMP_CWORD=2; _skycap; echo "\${COMPREPLY[*]}"`;
    expect(execFileSync('bash', ['-c', script]).toString().trim().split(' ').sort()).toEqual([
      'pack',
      'prune',
      'pull',
      'push',
    ]);
    const flags = `${stdout}\nCOMP_WORDS=(skycap install --dry); COMP_CWORD=2; _skycap; echo "\${COMPREPLY[*]}"`;
    expect(execFileSync('bash', ['-c', flags]).toString().trim()).toBe('--dry-run');
    const shells = `${stdout}\nCOMP_WORDS=(skycap completion ""); COMP_CWORD=2; _skycap; echo "\${COMPREPLY[*]}"`;
    expect(execFileSync('bash', ['-c', shells]).toString().trim()).toBe('bash zsh fish');
    // Where a value or a file belongs, nothing of ours: then bash offers the files.
    for (const line of ['lint -f ""', 'image import ""', 'image import ./r']) {
      const rest = `${stdout}\nCOMP_WORDS=(skycap ${line}); COMP_CWORD=3; _skycap; echo "\${COMPREPLY[*]}"; complete -p skycap`;
      expect(execFileSync('bash', ['-c', rest]).toString()).toBe(
        '\ncomplete -o bashdefault -o default -F _skycap skycap\n',
      );
    }
    for (const flag of ['--output', '-o']) {
      const values = `${stdout}\nCOMP_WORDS=(skycap list ${flag} j); COMP_CWORD=3; _skycap; echo "\${COMPREPLY[*]}"`;
      expect(execFileSync('bash', ['-c', values]).toString().trim()).toBe('json');
    }
  });
});
