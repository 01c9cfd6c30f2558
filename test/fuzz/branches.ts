import ts from 'typescript';

/** One way through a source. */
export interface Branch {
  /** Offset of its first character; Node strips types by blanks, so it is the same where it runs. */
  readonly at: number;
  /** For an `if` without `else`: `at` is the `if`, and the way past it was taken when it ran more often than this. */
  readonly less?: number;
  readonly line: number;
  readonly what: string;
}

/**
 * Functions, both ways of an `if` or `?:`, right sides of `&&`, `||` and `??`, bodies of loops, cases and catches.
 *
 * @param only Names of the top-level declarations that count.
 */
export function branchesOf(text: string, only: 'all' | readonly string[]): readonly Branch[] {
  const source = ts.createSourceFile('x.ts', text, ts.ScriptTarget.Latest, true);
  const found: Branch[] = [];
  const add = (node: ts.Node, what: string, less?: ts.Node): void => {
    const at = node.getStart();
    const line = source.getLineAndCharacterOfPosition(at).line + 1;
    found.push({ at, line, what, ...(less === undefined ? {} : { less: less.getStart() }) });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return;
    if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined)
      add(node.body as ts.Node, 'function');
    if (ts.isIfStatement(node)) {
      add(node.thenStatement, 'then');
      if (node.elseStatement === undefined) add(node, 'past if', node.thenStatement);
      else add(node.elseStatement, 'else');
    } else if (ts.isConditionalExpression(node)) {
      add(node.whenTrue, 'true');
      add(node.whenFalse, 'false');
    } else if (ts.isBinaryExpression(node) && isLazy(node.operatorToken.kind)) add(node.right, 'right side');
    else if (ts.isIterationStatement(node, false)) add(node.statement, 'loop');
    else if (ts.isCaseOrDefaultClause(node)) add(node, 'case');
    else if (ts.isCatchClause(node)) add(node.block, 'catch');
    ts.forEachChild(node, visit);
  };
  for (const statement of source.statements) {
    const name = (statement as { name?: ts.Node }).name?.getText();
    if (only === 'all' || (name !== undefined && only.includes(name))) visit(statement);
  }
  return found;
}

function isLazy(kind: ts.SyntaxKind): boolean {
  return [
    ts.SyntaxKind.AmpersandAmpersandToken,
    ts.SyntaxKind.BarBarToken,
    ts.SyntaxKind.QuestionQuestionToken,
  ].includes(kind);
}
