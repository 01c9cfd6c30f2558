import {
  childOf,
  type DocNode,
  locate,
  type ParsedDocument,
  type Problem,
  type ProblemDraft,
  problemAt,
  type Span,
} from '../../document/index.ts';
import type { Bundle, InvocationImage, Step } from '../model.ts';
import type { FactsOf } from './interface.ts';
import type { TagState } from './tags.ts';

export interface LintOptions {
  /** Whether a path relative to the bundle's folder exists; script files are not looked for without it. */
  readonly exists?: (path: string) => boolean;
  /** What porter.lock says of an image; without it `with:` and the program behind `args:` are not looked at. */
  readonly images?: FactsOf;
  /** By invocation image; what is not in it stands as it was pinned, or was not asked for. */
  readonly tags?: ReadonlyMap<string, TagState>;
}

/** One step with where it stands. */
export interface PlacedStep {
  readonly action: string;
  readonly step: Step;
  /** `install[2]`, or the id. */
  readonly label: string;
  /** Its image; undefined for mixin steps and unknown names. */
  readonly image?: InvocationImage;
}

export interface LintContext {
  readonly bundle: Bundle;
  readonly document: ParsedDocument;
  readonly steps: readonly PlacedStep[];
  readonly options: LintOptions;
  /** The bundle has invocation images: rules of ours hold, not only Porter's. */
  readonly strict: boolean;
  readonly problems: Problem[];
  readonly report: (span: Span, draft: ProblemDraft) => void;
}

export function lintContext(bundle: Bundle, document: ParsedDocument, options: LintOptions): LintContext {
  const images = new Map(bundle.invocationImages.map((image) => [image.name, image]));
  const problems: Problem[] = [];
  const steps = [...bundle.actions].flatMap(([action, list]) =>
    list.map((step): PlacedStep => {
      const image = step.body.kind === 'invoke' ? images.get(step.body.image) : undefined;
      const label = step.id ?? `${action}[${step.index}]`;
      return image === undefined ? { action, step, label } : { action, step, label, image };
    }),
  );
  const strict =
    bundle.invocationImages.length > 0 || steps.some((placed) => placed.step.body.kind === 'invoke');
  return {
    bundle,
    document,
    steps,
    options,
    strict,
    problems,
    report: (span, draft) => problems.push(problemAt(document, span, draft)),
  };
}

/** The node at a path of keys and indexes; undefined when there is none. */
export function nodeAt(context: LintContext, path: readonly (string | number)[]): DocNode | undefined {
  if (context.document.root === undefined) return undefined;
  const found = locate(context.document.root, path.map(String));
  return found.found ? found.node : undefined;
}

/** The span of a node, or of the nearest one above it. */
export function spanAt(context: LintContext, path: readonly (string | number)[]): Span {
  if (context.document.root === undefined) return { start: 0, end: 0 };
  const found = locate(context.document.root, path.map(String));
  const node = found.node;
  if (node.kind === 'map' && !node.flow && node.entries[0] !== undefined && found.keySpan === undefined)
    return node.entries[0].keySpan;
  return node.kind === 'scalar' ? node.span : (found.keySpan ?? node.span);
}

export function stepPath(placed: PlacedStep): readonly (string | number)[] {
  return [placed.action, placed.step.index];
}

/** A member of a step's `invoke`, whichever of its two forms is used. */
export function invokeMember(context: LintContext, placed: PlacedStep, key: string): DocNode | undefined {
  const invoke = nodeAt(context, [...stepPath(placed), 'invoke']);
  if (invoke?.kind === 'seq') {
    for (const item of invoke.items) {
      const member = childOf(item, key);
      if (member !== undefined) return member;
    }
    return undefined;
  }
  return childOf(invoke, key);
}

/** Where a list's item with this text stands. */
export function itemSpan(node: DocNode | undefined, text: string): Span | undefined {
  if (node?.kind !== 'seq') return undefined;
  return node.items.find((item) => item.kind === 'scalar' && item.text === text)?.span;
}
