import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { type BuildOptions, build, type Metafile } from 'esbuild';
import { builtinsOf, mergeChunks, type Output } from './merge-chunks.ts';

/**
 * Bundles `src` to `dist`: the program (`skycap.js`) and the rooms that are offered as libraries (`lib/<room>/`).
 * Code splitting keeps what one command needs out of the way of all others; see src/cli/README.md for the start-up budget.
 */
const root = join(import.meta.dirname, '..');

/** Entry points that exist; a worker is a file named `*.worker.ts` and keeps its name in `dist`. */
function entryPoints(): Record<string, string> {
  const entries: Record<string, string> = { skycap: join(root, 'src/cli/main.ts') };
  for (const room of ['oci', 'bundle', 'engine']) {
    entries[`lib/${room}/index`] = join(root, 'src', room, 'index.ts');
  }
  for (const file of sourceFiles(join(root, 'src'))) {
    const worker = /([^/]+)\.worker\.ts$/.exec(file);
    if (worker !== null) {
      entries[`${worker[1]}.worker`] = file;
    }
  }
  return entries;
}

export function sourceFiles(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !/\.test\.ts$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name));
}

export function packageVersion(): string {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  return version;
}

function options(outdir: string): BuildOptions {
  return {
    entryPoints: entryPoints(),
    outdir,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    minify: true,
    legalComments: 'none',
    sourcemap: process.env.SKYCAP_SOURCEMAP === undefined ? false : 'linked',
    chunkNames: 'chunks/[name]-[hash]',
    define: { 'globalThis.__SKYCAP_VERSION__': JSON.stringify(packageVersion()) },
    // The CommonJS build of yaml asks for `process` and `buffer` by require; its ES build does not and is smaller.
    alias: { yaml: join(root, 'node_modules/yaml/browser/index.js') },
    // CommonJS that asks for a built-in module by require: loaded as it is, by the one command that needs it.
    external: ['@balena/dockerignore'],
    metafile: true,
    write: false,
    logLevel: 'warning',
    absWorkingDir: root,
  };
}

/** Loaded together: by every command, and by every command that reads a bundle. */
const together = {
  start: ['src/cli/process.ts'],
  bundle: ['src/cli/commands/lint.ts', 'src/cli/lint/check.ts', 'src/bundle/lint/index.ts'],
};

function outputsBelow(folder: string, metafile: Metafile | undefined): ReadonlyMap<string, Output> {
  const below = (path: string): string => relative(folder, join(root, path));
  return new Map(
    Object.entries(metafile?.outputs ?? {}).map(([path, output]) => [
      below(path),
      {
        ...output,
        imports: output.imports.map((one) =>
          one.external === true ? one : { ...one, path: below(one.path) },
        ),
      },
    ]),
  );
}

/** Newest change among what `dist` is made of, in milliseconds. */
function newestInput(): number {
  const files = [...sourceFiles(join(root, 'src')), join(root, 'package.json'), import.meta.filename];
  return Math.max(...files.map((file) => statSync(file).mtimeMs));
}

/**
 * Node makes an ES module of a builtin by reading all of its exports, which for `node:fs` and `node:crypto` loads
 * streams and WebCrypto: 20 ms of a start that takes 40. `process.getBuiltinModule` gives the same functions as they
 * are. A file in which not exactly the imports that esbuild reports are found stays as it is.
 */
export function requireBuiltins(code: string, expected: number): string {
  const statement = /import(\{[^{}]*\}|\*as [\w$]+ | [\w$]+ )from"(node:[^"]+)";?/g;
  const found = [...code.matchAll(statement)];
  if (found.length !== expected) {
    return code;
  }
  const head = found.map(([, names = '', path = '']) => {
    const target = names
      .replace(/^\*as /, '')
      .replace(/([\w$]+) as ([\w$]+)/g, '$1:$2')
      .trim();
    return `const ${target}=process.getBuiltinModule(${JSON.stringify(path)});`;
  });
  return head.join('') + code.replace(statement, '');
}

/**
 * Builds, and leaves the metafile beside the output for the test of what `version` loads. The new folder takes the
 * old one's place by rename, so that a program started meanwhile finds one or the other whole.
 */
export async function buildDist(): Promise<void> {
  const work = join(root, 'node_modules/.skycap-build', String(process.pid));
  const dist = join(root, 'dist');
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  try {
    const result = await build(options(join(work, 'new')));
    const folder = join(work, 'new');
    const outputs = outputsBelow(folder, result.metafile);
    const files = new Map(
      (result.outputFiles ?? []).map(({ path, text }) => {
        const name = relative(folder, path);
        return [name, { text, builtins: builtinsOf(outputs.get(name) ?? { imports: [] }) }] as const;
      }),
    );
    for (const [path, { text, builtins }] of await mergeChunks(files, outputs, together)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), path.endsWith('.js') ? requireBuiltins(text, builtins) : text);
    }
    writeFileSync(join(work, 'new/meta.json'), JSON.stringify(result.metafile));
    if (existsSync(dist)) {
      renameSync(dist, join(work, 'old'));
    }
    renameSync(join(work, 'new'), dist);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Builds unless `dist` is newer than every source. */
export async function buildDistIfStale(): Promise<boolean> {
  const stamp = statSync(join(root, 'dist/meta.json'), { throwIfNoEntry: false });
  if (stamp !== undefined && stamp.mtimeMs >= newestInput()) {
    return false;
  }
  await buildDist();
  return true;
}

if (process.argv[1] === import.meta.filename) {
  await (process.argv.includes('--if-stale') ? buildDistIfStale() : buildDist());
}
