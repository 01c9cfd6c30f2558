import {
  childOf,
  entryOf,
  type MapNode,
  type ParsedDocument,
  type Problem,
  problemAt,
} from '../document/index.ts';
import { textOf } from './reader.ts';
import { usesInvoke } from './uses-invoke.ts';

const PAAS_KEYS = ['services', 'apps'] as const;
const BUNDLE_KEYS = [
  'name',
  'mixins',
  'install',
  'uninstall',
  'upgrade',
  'parameters',
  'credentials',
  'tag',
  'registry',
  'reference',
  'outputs',
  'version',
  'customActions',
  'images',
  'dependencies',
  'description',
];

/** A porter.yaml that is not for us, said in one problem instead of a hundred; undefined for one that is. */
export function foreignFile(document: ParsedDocument, root: MapNode): Problem | undefined {
  if (textOf(root, 'schemaVersion') !== undefined || usesInvoke(root)) return undefined;
  const place = (key: string) => entryOf(root, key)?.keySpan ?? root.entries[0]?.keySpan ?? root.span;
  const paas = PAAS_KEYS.find((key) => childOf(root, key) !== undefined);
  const hasSteps = childOf(root, 'install') !== undefined || childOf(root, 'mixins') !== undefined;
  if (paas !== undefined && !hasSteps && /^v[12](?:\D|$)/.test(textOf(root, 'version') ?? ''))
    return problemAt(document, place('version'), {
      code: 'other-platform',
      message: `this porter.yaml (version ${textOf(root, 'version')}, with \`${paas}\`) belongs to the hosting platform Porter, not to a bundle`,
      hint: 'run skycap in the folder of a bundle, or name its file with `--file`',
    });
  if (!BUNDLE_KEYS.some((key) => childOf(root, key) !== undefined))
    return problemAt(document, root.entries[0]?.keySpan ?? root.span, {
      code: 'not-a-bundle',
      message: 'the file has none of a bundle’s keys',
      hint: 'run `skycap create` for a bundle to begin with',
    });
  return problemAt(document, root.entries[0]?.keySpan ?? root.span, {
    code: 'legacy-bundle',
    message:
      'the file has neither `schemaVersion` nor `invocationImages`, so it is a bundle for Porter 0.38 or older, which Skycap does not read yet',
    hint: 'add `schemaVersion: 1.0.1` if it is newer, or `invocationImages:` to run its steps in images of their own',
  });
}
