import {
  childOf,
  type DocNode,
  didYouMean,
  type MapEntry,
  type MapNode,
  type ParsedDocument,
  type Problem,
  problemAt,
} from '../document/index.ts';
import { credentialShape, readCredential } from './credentials.ts';
import { BUILT_IN, customActionsShape, readCustomActions } from './custom-actions.ts';
import { dependenciesShape, readDependency } from './dependencies.ts';
import { foreignFile } from './foreign.ts';
import { imageShape, readImage } from './images.ts';
import { defined, invocationImageShape, readInvocationImage } from './invocation-images.ts';
import { metadataFields, readMetadata } from './metadata.ts';
import { readMixins } from './mixins.ts';
import type { Bundle, Step } from './model.ts';
import { outputShape, readOutput, readStatePath, stateShape } from './outputs.ts';
import { parameterShape, readParameter } from './parameters.ts';
import { checkShape, itemsOf, type Reader, report, textOf, uniqueByName, unknownKey } from './reader.ts';
import { actionName, any, type Field, field, list, object, plainName, record } from './shape.ts';
import { rememberDocument } from './source-document.ts';
import { frameFields, readSteps } from './steps.ts';
import { usesInvoke } from './uses-invoke.ts';
import { classifySchemaVersion } from './version.ts';

/** Every top-level key but the actions; the order is the one that editors offer. */
export const topLevelFields: Readonly<Record<string, Field>> = {
  ...metadataFields,
  invocationImages: field(list(invocationImageShape), 'images that steps run in'),
  required: field(list(any), 'extensions that must be there, such as `docker`'),
  mixins: field(list(any), 'mixins, where steps use them'),
  parameters: field(list(parameterShape), 'values that whoever installs the bundle may set'),
  credentials: field(list(credentialShape), 'secrets that the bundle needs'),
  outputs: field(list(outputShape), 'values that the bundle makes'),
  state: field(list(stateShape), 'files kept between runs; `[]` keeps none'),
  images: field(record(imageShape, plainName), 'images that the application is made of'),
  dependencies: field(dependenciesShape, 'bundles that run before this one'),
  customActions: field(customActionsShape, 'what further actions are'),
  files: field(any, 'schema version 1.3.0 only'),
};

const topLevelShape = object(
  Object.fromEntries(Object.entries(topLevelFields).filter(([key]) => key !== 'mixins')),
  any,
);

export interface ParseResult {
  /** Absent when any problem is an error. */
  readonly bundle?: Bundle;
  readonly problems: readonly Problem[];
}

export interface TolerantResult {
  /** What could be read, errors or not; absent when the file is no bundle at all. */
  readonly bundle?: Bundle;
  readonly document: ParsedDocument;
  readonly problems: readonly Problem[];
}

const BROKEN = new Set([
  'yaml-syntax',
  'yaml-expression-quotes',
  'yaml-limit',
  'yaml-key',
  'yaml-several-documents',
]);

/** Reads a porter.yaml from its tree: structure only; `lintBundle` looks at what it means. */
export function parseTolerant(document: ParsedDocument): TolerantResult {
  const { root, source, file } = document;
  const problems: Problem[] = [...document.problems];
  if (root === undefined || root.kind !== 'map') {
    if (!problems.some((problem) => problem.severity === 'error'))
      problems.push(
        problemAt(document, root?.span ?? { start: 0, end: 0 }, {
          code: 'not-a-bundle',
          message: 'the file is empty or no map, so it is no bundle',
          hint: 'run `skycap create` for one to begin with',
        }),
      );
    return { document, problems };
  }
  // Behind a syntax error the tree is a guess, and so would be all that is said about it.
  if (problems.some((problem) => BROKEN.has(problem.code))) return { document, problems };
  const foreign = foreignFile(document, root);
  if (foreign !== undefined) return { document, problems: [...problems, foreign] };
  const reader: Reader = {
    file,
    source,
    lines: document.lines,
    strict: usesInvoke(root),
    problems,
  };
  const bundle = readBundleNode(reader, root);
  rememberDocument(bundle, document);
  return { bundle, document, problems };
}

function readBundleNode(reader: Reader, root: MapNode): Bundle {
  const mixins = readMixins(reader, root);
  const actionEntries = findActions(reader, root, mixins);
  const checked = new Set([...Object.keys(topLevelFields)]);
  checkShape(
    reader,
    { ...root, entries: root.entries.filter((entry) => checked.has(entry.key)) },
    { shape: topLevelShape, label: '' },
  );
  const schema = readSchemaVersion(reader, root);
  const actions = new Map<string, readonly Step[]>();
  for (const entry of actionEntries) actions.set(entry.key, readSteps(reader, entry, mixins));
  checkActions(reader, root, actions);
  checkUnsupported(reader, root);
  if (!reader.strict && itemsOf(root, 'mixins').length === 0)
    report(
      reader,
      { start: 0, end: 0 },
      {
        code: 'missing-key',
        message: 'the bundle names no `mixins` and no `invocationImages`, so no step can run',
        hint: 'add `invocationImages:`',
      },
    );
  const withSteps = [...actions.keys()];
  const otherActions = [
    ...new Set([...withSteps.filter((name) => name !== 'install'), 'upgrade', 'uninstall']),
  ].sort();
  const read = <T>(key: string, one: (item: DocNode, label: string) => T | undefined): readonly T[] =>
    itemsOf(root, key).flatMap((item, i) => one(item, `${key}[${i}]`) ?? []);
  const images = childOf(root, 'images');
  const requires = itemsOf(childOf(root, 'dependencies'), 'requires').flatMap(
    (item) => readDependency(reader, item) ?? [],
  );
  const state = childOf(root, 'state');
  return {
    file: reader.file,
    source: reader.source,
    ...schema,
    ...readMetadata(reader, root),
    mixins,
    parameters: uniqueByName(
      reader,
      'parameters',
      read('parameters', (item, label) => readParameter(reader, item, { label, otherActions })),
    ),
    credentials: uniqueByName(
      reader,
      'credentials',
      read('credentials', (item) => readCredential(reader, item)),
    ),
    outputs: uniqueByName(
      reader,
      'outputs',
      read('outputs', (item) => readOutput(reader, item)),
    ),
    ...defined({
      state:
        state === undefined || (state.kind === 'scalar' && state.value === null)
          ? undefined
          : read('state', (item) => readStatePath(reader, item)),
    }),
    images: images?.kind === 'map' ? images.entries.flatMap((entry) => readImage(reader, entry) ?? []) : [],
    invocationImages: uniqueByName(
      reader,
      'invocation images',
      read('invocationImages', (item, label) => readInvocationImage(reader, item, label)),
    ),
    dependencies: requires,
    customActions: readCustomActions(root, withSteps),
    actions,
  };
}

/**
 * Every other top-level key is an action, as in Porter; a key whose value is no list of steps, or that looks like a
 * slip in a known key, is an unknown key.
 */
function findActions(reader: Reader, root: MapNode, mixins: Bundle['mixins']): readonly MapEntry[] {
  const known = [...Object.keys(topLevelFields), ...BUILT_IN];
  const declared = childOf(root, 'customActions');
  return root.entries.filter((entry) => {
    if (Object.hasOwn(topLevelFields, entry.key)) return false;
    if ((BUILT_IN as readonly string[]).includes(entry.key)) return true;
    const isDeclared = declared?.kind === 'map' && declared.entries.some((other) => other.key === entry.key);
    if (isDeclared || looksLikeSteps(entry.value, mixins)) return checkActionName(reader, entry);
    if (entry.key === 'invocationImage' || entry.key === 'tag') {
      if (entry.value.kind === 'scalar') {
        report(reader, entry.keySpan, {
          severity: 'warning',
          code: 'ignored-key',
          message: `\`${entry.key}\` is no longer used and is ignored, as in Porter`,
          hint: 'use `reference:`',
        });
        return false;
      }
    }
    const meant = didYouMean(entry.key, known);
    if (entry.value.kind === 'seq' && meant === undefined) return checkActionName(reader, entry);
    unknownKey({ ...reader, strict: true }, entry, { label: '', known });
    return false;
  });
}

function checkActionName(reader: Reader, entry: MapEntry): boolean {
  if (actionName.pattern.test(entry.key)) return true;
  report(reader, entry.keySpan, {
    code: 'bad-value',
    message: `the action name \`${entry.key.slice(0, 80)}\` must be ${actionName.says}`,
  });
  return false;
}

function looksLikeSteps(node: DocNode, mixins: Bundle['mixins']): boolean {
  if (node.kind !== 'seq') return false;
  return node.items.some(
    (item) =>
      item.kind === 'map' &&
      item.entries.some(
        (entry) => entry.key === 'invoke' || mixins.some((mixin) => mixin.name === entry.key),
      ) &&
      item.entries.every(
        (entry) =>
          entry.key === 'invoke' ||
          Object.hasOwn(frameFields, entry.key) ||
          mixins.some((mixin) => mixin.name === entry.key),
      ),
  );
}

function readSchemaVersion(reader: Reader, root: MapNode): Pick<Bundle, 'schemaVersion' | 'delimiters'> {
  const node = childOf(root, 'schemaVersion');
  const written = textOf(root, 'schemaVersion');
  if (node === undefined || written === undefined || written === '')
    return { schemaVersion: '1.0.1', delimiters: 'dollar' };
  const found = classifySchemaVersion(written);
  if (found.kind === 'supported') return { schemaVersion: found.version, delimiters: found.delimiters };
  report(reader, node.span, {
    code: 'schema-version',
    message:
      found.kind === 'experimental'
        ? `schemaVersion ${found.version} belongs to Porter’s experiment ${found.feature}, which Skycap does not take part in`
        : `schemaVersion \`${found.version.slice(0, 40)}\` is none that Skycap knows`,
    hint: 'Skycap reads 1.0.0-alpha.1, 1.0.0 and 1.0.1',
  });
  return { schemaVersion: found.version, delimiters: 'dollar' };
}

function checkActions(reader: Reader, root: MapNode, actions: ReadonlyMap<string, readonly Step[]>): void {
  const top = root.entries[0]?.keySpan ?? root.span;
  if (reader.strict) {
    if (
      [...actions.values()].every((steps) => steps.length === 0) &&
      reader.problems.every((problem) => problem.severity !== 'error')
    )
      report(reader, top, {
        code: 'no-steps',
        message: 'the bundle has no steps',
        hint: 'add `install:` with a list of steps',
      });
    return;
  }
  for (const action of ['install', 'uninstall'])
    if (!actions.has(action))
      report(reader, top, {
        code: 'missing-key',
        message: `the bundle has no \`${action}\` action`,
        hint: `add \`${action}:\` with a list of steps`,
      });
}

function checkUnsupported(reader: Reader, root: MapNode): void {
  const files = root.entries.find((entry) => entry.key === 'files');
  if (files !== undefined)
    report(reader, files.keySpan, {
      code: 'schema-version',
      message:
        '`files` belongs to schema version 1.3.0, an experiment of Porter that Skycap does not take part in',
      hint: 'put the files beside porter.yaml',
    });
}
