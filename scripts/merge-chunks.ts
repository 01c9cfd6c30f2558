import { basename, posix } from 'node:path';
import { build } from 'esbuild';

/** What esbuild's metafile says of one output that is used here; paths are relative to the output folder. */
export interface Output {
  readonly entryPoint?: string;
  readonly imports: readonly { readonly path: string; readonly kind: string; readonly external?: boolean }[];
  readonly exports: readonly string[];
}

export interface BuiltFile {
  readonly text: string;
  /** How many import statements of built-in modules it has. */
  readonly builtins: number;
}

/**
 * Puts chunks that are always loaded together into one file each. Code splitting makes a chunk for every set of entry
 * points that share modules, about thirty of a few hundred bytes for one command, and Node takes half a millisecond to
 * find and link each.
 *
 * @param files - by path, relative to the output folder
 * @param groups - name of the merged file → source files (entry points) that it brings, with all they import statically;
 *   what an earlier group has is not taken again
 * @returns the new files; every import of a merged chunk leads to the file that has it
 * @throws Error where an import of a merged chunk is in a form that is not known here
 */
export async function mergeChunks(
  files: ReadonlyMap<string, BuiltFile>,
  outputs: ReadonlyMap<string, Output>,
  groups: Readonly<Record<string, readonly string[]>>,
): Promise<ReadonlyMap<string, BuiltFile>> {
  const home = new Map<string, { readonly group: string; readonly prefix: string }>();
  const members = new Map<string, string[]>();
  for (const [group, sources] of Object.entries(groups)) {
    const chunks = [...closure(outputs, sources)].filter((path) => !home.has(path));
    for (const [at, path] of chunks.entries()) home.set(path, { group, prefix: `c${at}_` });
    members.set(group, chunks);
  }
  const rest = new Map([...files].filter(([path]) => !home.has(path)));
  for (const [group, chunks] of members) rest.set(`chunks/${group}.js`, await bundle(files, outputs, chunks));
  return new Map(
    [...rest].map(([path, { text, builtins }]) => [path, { text: redirect(path, text, home), builtins }]),
  );
}

function closure(outputs: ReadonlyMap<string, Output>, sources: readonly string[]): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (path: string): void => {
    if (found.has(path)) return;
    found.add(path);
    for (const { kind, path: target, external } of outputs.get(path)?.imports ?? [])
      if (kind === 'import-statement' && external !== true) visit(target);
  };
  for (const source of sources) {
    const entry = [...outputs].find(([, output]) => output.entryPoint === source);
    if (entry === undefined) throw new Error(`${source} is no entry point of the build`);
    visit(entry[0]);
  }
  return found;
}

export function builtinsOf({ imports }: Pick<Output, 'imports'>): number {
  return imports.filter(({ path, kind }) => kind === 'import-statement' && path.startsWith('node:')).length;
}

/** One module of several; each export gets the prefix of its chunk. */
async function bundle(
  files: ReadonlyMap<string, BuiltFile>,
  outputs: ReadonlyMap<string, Output>,
  chunks: readonly string[],
): Promise<BuiltFile> {
  const lines = chunks.flatMap((path, at) => {
    const names = (outputs.get(path)?.exports ?? []).map((name) => `${name} as c${at}_${name}`);
    const from = JSON.stringify(`./${basename(path)}`);
    return names.length === 0 ? [`import ${from};`] : [`export {${names.join(',')}} from ${from};`];
  });
  const result = await build({
    stdin: { contents: lines.join('\n'), sourcefile: 'chunks/merged.js' },
    bundle: true,
    write: false,
    metafile: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    minify: true,
    legalComments: 'none',
    logLevel: 'warning',
    plugins: [
      {
        name: 'chunks',
        setup(builder) {
          builder.onResolve({ filter: /^\.\.?\// }, ({ path, kind }) => {
            const target = posix.join('chunks', path);
            return kind !== 'dynamic-import' && chunks.includes(target)
              ? { path: target, namespace: 'chunk' }
              : { path, external: true };
          });
          builder.onLoad({ filter: /.*/, namespace: 'chunk' }, ({ path }) => ({
            contents: files.get(path)?.text ?? '',
            loader: 'js',
          }));
        },
      },
    ],
  });
  const output = Object.values(result.metafile.outputs)[0];
  return { text: result.outputFiles[0]?.text ?? '', builtins: output === undefined ? 0 : builtinsOf(output) };
}

const STATIC = /(import|export)(?:(\{[^{}]*\})from)?"(\.[^"]*\/[^"/]+\.js)"/g;
const DYNAMIC = /import\("(\.[^"]*\/[^"/]+\.js)"\)/g;

/** Makes imports of merged chunks imports of the merged file. */
function redirect(
  path: string,
  text: string,
  home: ReadonlyMap<string, { readonly group: string; readonly prefix: string }>,
): string {
  const folder = posix.dirname(path);
  const found = (target: string) => {
    const at = home.get(posix.join(folder, target));
    return at === undefined ? undefined : { ...at, file: `${posix.dirname(target)}/${at.group}.js` };
  };
  const named = (names: string, prefix: string): string =>
    names.replace(
      /([\w$]+)(?: as ([\w$]+))?/g,
      (_, name: string, as?: string) => `${prefix}${name} as ${as ?? name}`,
    );
  const changed = text
    .replace(STATIC, (whole, word: string, names: string | undefined, target: string) => {
      const at = found(target);
      if (at === undefined) return whole;
      return names === undefined
        ? `${word}"${at.file}"`
        : `${word}${named(names, at.prefix)}from"${at.file}"`;
    })
    .replace(DYNAMIC, (whole, target: string) => {
      const at = found(target);
      if (at === undefined) return whole;
      const names = `n=>Object.fromEntries(Object.keys(n).filter(k=>k.startsWith("${at.prefix}")).map(k=>[k.slice(${at.prefix.length}),n[k]]))`;
      return `import("${at.file}").then(${names})`;
    });
  const left = [...changed.matchAll(/"(\.[^"]*\/[^"/]+\.js)"/g)].find(
    ([, target]) => found(target ?? '') !== undefined,
  );
  if (left !== undefined) throw new Error(`${path} names the merged chunk ${left[1]} in an unknown way`);
  return changed;
}
