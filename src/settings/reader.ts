import {
  type DocNode,
  didYouMean,
  type MapEntry,
  type ParsedDocument,
  type Problem,
  problemAt,
} from '../document/index.ts';

/** Takes a configuration file apart and gathers what is wrong with it. */
export class Reader {
  readonly problems: Problem[] = [];
  readonly #document: ParsedDocument;

  constructor(document: ParsedDocument) {
    this.#document = document;
  }

  wrong(span: DocNode['span'], code: string, message: string, hint?: string): undefined {
    this.problems.push(problemAt(this.#document, span, { code, message, hint }));
    return undefined;
  }

  map(node: DocNode, what: string, known?: readonly string[]): readonly MapEntry[] {
    if (node.kind === 'scalar' && node.value === null) return [];
    if (node.kind !== 'map') {
      this.wrong(node.span, 'wrong-type', `${what} must be a map`);
      return [];
    }
    return node.entries.filter((entry) => {
      if (known === undefined || known.includes(entry.key)) return true;
      const meant = didYouMean(entry.key, known);
      const hint =
        meant === undefined
          ? `known here: ${known.filter((key) => key !== 'policy').join(', ')}`
          : `did you mean ${meant}?`;
      this.wrong(entry.keySpan, 'unknown-key', `${what} has no key ${JSON.stringify(entry.key)}`, hint);
      return false;
    });
  }

  list(node: DocNode, what: string): readonly DocNode[] {
    if (node.kind === 'scalar' && node.value === null) return [];
    if (node.kind === 'seq') return node.items;
    this.wrong(node.span, 'wrong-type', `\`${what}\` must be a list`);
    return [];
  }

  text(node: DocNode, what: string): string | undefined {
    if (node.kind === 'scalar' && typeof node.value === 'string' && node.value !== '') return node.value;
    return this.wrong(node.span, 'wrong-type', `\`${what}\` must be a string that is not empty`);
  }

  flag(node: DocNode, what: string): boolean {
    if (node.kind === 'scalar' && typeof node.value === 'boolean') return node.value;
    this.wrong(node.span, 'wrong-type', `\`${what}\` must be true or false`);
    return false;
  }
}
