import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import ts from 'typescript';

/** Writes `docs/api/oci.md`, everything that `skycap/oci` offers; `--check` only says whether the page is stale. */
const root = join(import.meta.dirname, '..');
const ENTRY = join(root, 'src/oci/index.ts');
const PAGE = join(root, 'docs/api/oci.md');

const printer = ts.createPrinter({ removeComments: true, omitTrailingSemicolon: false });

class Report {
  readonly #checker: ts.TypeChecker;
  readonly #entry: ts.SourceFile;
  readonly #seen = new Map<string, string>();

  constructor(program: ts.Program) {
    this.#checker = program.getTypeChecker();
    this.#entry = program.getSourceFile(ENTRY) as ts.SourceFile;
  }

  page(): string {
    const module = this.#checker.getSymbolAtLocation(this.#entry) as ts.Symbol;
    const own = this.#exports(module);
    const lines = [
      '# API of `skycap/oci`',
      '',
      'Made by `npm run api` from the sources; `npm run check` fails where it is not what they say. Units, errors and the sections of the specifications are in the TSDoc of each declaration. Examples: [examples/library](../../examples/library).',
      '',
      ...this.#section('skycap/oci', own),
    ];
    for (const symbol of own) {
      const loaded = this.#loaded(symbol);
      if (loaded !== undefined) lines.push(...this.#section(`await ${symbol.name}()`, this.#exports(loaded)));
    }
    return `${lines.join('\n').trimEnd()}\n`;
  }

  #exports(module: ts.Symbol): readonly ts.Symbol[] {
    return this.#checker.getExportsOfModule(module).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The module that a `load…()` function gives. */
  #loaded(symbol: ts.Symbol): ts.Symbol | undefined {
    if (!symbol.name.startsWith('load')) return undefined;
    const type = this.#checker.getTypeOfSymbol(this.#target(symbol));
    const given = type.getCallSignatures()[0]?.getReturnType();
    const module = given === undefined ? undefined : this.#checker.getAwaitedType(given)?.symbol;
    return module !== undefined && (module.flags & ts.SymbolFlags.ValueModule) !== 0 ? module : undefined;
  }

  #target(symbol: ts.Symbol): ts.Symbol {
    return (symbol.flags & ts.SymbolFlags.Alias) === 0 ? symbol : this.#checker.getAliasedSymbol(symbol);
  }

  #section(title: string, symbols: readonly ts.Symbol[]): readonly string[] {
    const lines = [`## \`${title}\``, ''];
    for (const symbol of symbols) {
      const target = this.#target(symbol);
      const text = (target.declarations ?? []).map((one) => this.#signature(one, target)).join('\n');
      const before = this.#seen.get(symbol.name);
      lines.push(`### \`${symbol.name}\``, '');
      if (before === text) {
        lines.push('As above.', '');
        continue;
      }
      this.#seen.set(symbol.name, text);
      const doc = this.#firstSentence(target);
      if (doc !== '') lines.push(doc, '');
      lines.push('```ts', text, '```', '');
    }
    return lines;
  }

  #firstSentence(symbol: ts.Symbol): string {
    const text = ts.displayPartsToString(symbol.getDocumentationComment(this.#checker));
    const paragraph = (text.split(/\n\s*\n|\n(?=- )/)[0] ?? '').replaceAll('\n', ' ').trim();
    return /^.*?[.:](?= [A-Z`]|$)/.exec(paragraph)?.[0] ?? paragraph;
  }

  #signature(node: ts.Declaration, symbol: ts.Symbol): string {
    const print = (one: ts.Node): string =>
      printer.printNode(ts.EmitHint.Unspecified, one, node.getSourceFile()).replace(/^export /, '');
    if (ts.isFunctionDeclaration(node)) {
      const signature = this.#checker.getSignatureFromDeclaration(node);
      const type =
        signature === undefined
          ? ''
          : this.#checker.signatureToString(signature, node, ts.TypeFormatFlags.NoTruncation);
      const { factory } = ts;
      if (node.type === undefined) return `function ${symbol.name}${type}`;
      const { asteriskToken, typeParameters, parameters } = node;
      const bare = parameters.map((one) =>
        one.initializer === undefined
          ? one
          : factory.updateParameterDeclaration(
              one,
              ...([one.modifiers, one.dotDotDotToken, one.name] as const),
              ...([factory.createToken(ts.SyntaxKind.QuestionToken), one.type, undefined] as const),
            ),
      );
      return print(
        factory.createFunctionDeclaration(
          ...([undefined, asteriskToken, node.name, typeParameters, bare, node.type, undefined] as const),
        ),
      );
    }
    if (ts.isClassDeclaration(node)) return this.#class(node, print);
    if (ts.isVariableDeclaration(node)) {
      const type = this.#checker.getTypeOfSymbol(symbol);
      const flags = ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.UseAliasDefinedOutsideCurrentScope;
      return `const ${symbol.name}: ${this.#checker.typeToString(type, node, flags)};`;
    }
    return print(node);
  }

  /** Public members, without what they do. */
  #class(node: ts.ClassDeclaration, print: (one: ts.Node) => string): string {
    const heritage = (node.heritageClauses ?? []).map((one) => ` ${print(one).trim()}`).join('');
    const members = node.members
      .filter((one) => one.name === undefined || !ts.isPrivateIdentifier(one.name))
      .filter((one) => (ts.getCombinedModifierFlags(one) & ts.ModifierFlags.Private) === 0)
      .map((one) => {
        const body = 'body' in one ? (one.body as ts.Node | undefined) : undefined;
        const text = print(one);
        if (body === undefined) return text.replace(/ = .*$/s, ';');
        const cut = text.slice(0, text.length - print(body).length).trimEnd();
        return `${cut.replace(/^async /, '')};`;
      });
    return `class ${node.name?.text ?? ''}${heritage} {\n${members.map((one) => `    ${one}`).join('\n')}\n}`;
  }
}

export function apiPage(): string {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile) as {
    config: { compilerOptions: object };
  };
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
  return new Report(ts.createProgram([ENTRY], options)).page();
}

const page = apiPage();
if (process.argv.includes('--check')) {
  const isCurrent = existsSync(PAGE) && readFileSync(PAGE, 'utf8') === page;
  if (!isCurrent) console.log('docs/api/oci.md is not what the sources say: npm run api');
  process.exitCode = isCurrent ? 0 : 1;
} else {
  mkdirSync(dirname(PAGE), { recursive: true });
  writeFileSync(PAGE, page);
}
