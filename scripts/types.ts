import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import ts from 'typescript';

/**
 * Type declarations of what `package.json` offers as libraries, into `dist/types`. `--check` puts them where npm would
 * put the package, beside a project that has the examples, and compiles that.
 */
const root = join(import.meta.dirname, '..');
const ROOMS = ['oci', 'bundle', 'engine'];
const EXAMPLES = join(root, 'examples/library');

function baseOptions(): ts.CompilerOptions {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile) as {
    config: { compilerOptions: object };
  };
  return ts.convertCompilerOptionsFromJson(config.compilerOptions, root).options;
}

function shown(diagnostics: readonly ts.Diagnostic[]): string {
  return ts.formatDiagnostics(diagnostics, {
    getCurrentDirectory: () => root,
    getCanonicalFileName: (name) => name,
    getNewLine: () => '\n',
  });
}

/** Sources import each other as `.ts`; what is shipped has `.d.ts` that stand for `.js`. */
function withShippedNames(text: string): string {
  return text.replace(/(from |import\()(['"])(\.[^'"\n]+)\.ts\2/g, '$1$2$3.js$2');
}

/** @throws where a declaration cannot be made */
export function emitTypes(folder: string): void {
  const program = ts.createProgram(
    ROOMS.map((room) => join(root, 'src', room, 'index.ts')),
    {
      ...baseOptions(),
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      rootDir: join(root, 'src'),
      outDir: folder,
    },
  );
  const { diagnostics } = program.emit(undefined, (path, text) => {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, withShippedNames(text));
  });
  if (diagnostics.length > 0) throw new Error(shown(diagnostics));
}

/** What a user's compiler says of the examples and of our declarations; empty where it is content. */
export function checkTypes(): string {
  const project = join(root, 'node_modules/.skycap-types', String(process.pid));
  const installed = join(project, 'node_modules/skycap');
  try {
    mkdirSync(installed, { recursive: true });
    cpSync(join(root, 'package.json'), join(installed, 'package.json'));
    writeFileSync(join(project, 'package.json'), '{"type":"module"}');
    emitTypes(join(installed, 'dist/types'));
    cpSync(EXAMPLES, join(project, 'examples'), { recursive: true });
    const every = join(project, 'every.ts');
    writeFileSync(
      every,
      ROOMS.map((room) => `import * as ${room} from 'skycap/${room}';\nexport { ${room} };\n`).join(''),
    );
    const examples = readdirSync(join(project, 'examples')).filter((name) => name.endsWith('.ts'));
    const files = [every, ...examples.map((name) => join(project, 'examples', name))];
    const program = ts.createProgram(files, {
      ...baseOptions(),
      allowImportingTsExtensions: false,
      skipLibCheck: false,
    });
    // Declarations of others are theirs to mend.
    const ours = ts
      .getPreEmitDiagnostics(program)
      .filter(({ file }) => file === undefined || file.fileName.startsWith(project));
    return shown(ours);
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
}

if (process.argv[1] === import.meta.filename) {
  if (process.argv.includes('--check')) {
    const problems = checkTypes();
    console.log(problems === '' ? 'the examples fit the declarations that are shipped' : problems);
    process.exitCode = problems === '' ? 0 : 1;
  } else {
    const folder = join(root, 'dist/types');
    rmSync(folder, { recursive: true, force: true });
    emitTypes(folder);
  }
}
