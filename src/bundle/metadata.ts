import { childOf, type DocNode, type Json, toJson } from '../document/index.ts';
import { defined } from './invocation-images.ts';
import type { Bundle } from './model.ts';
import { badValue, headOf, itemsOf, type Reader, report, textOf } from './reader.ts';
import { imageReference } from './references.ts';
import { any, type Field, field, list, matching, object, record, required, text } from './shape.ts';
import { normalizeVersion } from './version.ts';

/** Porter takes a name with slashes (`examples/hello`); it becomes part of a repository. */
const bundleName = {
  pattern: /^[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?(?:\/[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)*$/,
  says: 'letters, digits, `_`, `.`, `-` and `/` between parts, each part beginning and ending with a letter or digit',
};

export const metadataFields: Readonly<Record<string, Field>> = {
  schemaType: field(text, '`Bundle`'),
  schemaVersion: field(text, '`1.0.1` unless given'),
  name: required(matching(bundleName), 'the bundle’s name'),
  version: required(text, 'semantic version; a leading `v` is allowed'),
  description: field(text, 'one sentence'),
  registry: field(text, 'where it is published, like `ghcr.io/acme`'),
  reference: field(text, 'where it is published, with name and tag'),
  dockerfile: field(text, 'template of the Dockerfile, for mixin steps'),
  maintainers: field(
    list(object({ name: field(text, 'name'), email: field(text, 'address'), url: field(text, 'page') })),
    'who looks after it',
  ),
  custom: field(record(any), 'free data, readable as `${ bundle.custom.A.B }`'),
};

export type Metadata = Pick<
  Bundle,
  'name' | 'version' | 'description' | 'registry' | 'reference' | 'maintainers' | 'custom' | 'required'
>;

export function readMetadata(reader: Reader, root: DocNode): Metadata {
  const written = textOf(root, 'version') ?? '';
  const version = normalizeVersion(written);
  const place = childOf(root, 'version')?.span;
  if (written !== '' && version === undefined && place !== undefined)
    badValue(reader, place, `the version \`${written}\``, 'must be a semantic version like `1.2.3`');
  const schemaType = textOf(root, 'schemaType');
  if (schemaType !== undefined && schemaType.toLowerCase() !== 'bundle')
    badValue(
      reader,
      childOf(root, 'schemaType')?.span ?? root.span,
      `the schemaType \`${schemaType}\``,
      'must be `Bundle`',
    );
  checkReference(reader, root);
  const dockerfile = textOf(root, 'dockerfile');
  if (dockerfile?.toLowerCase() === 'dockerfile')
    badValue(
      reader,
      childOf(root, 'dockerfile')?.span ?? root.span,
      'the template',
      'must not be called `Dockerfile`',
      'rename it, as in `template.Dockerfile`',
    );
  return {
    name: textOf(root, 'name') ?? '',
    version: version ?? written,
    description: textOf(root, 'description') ?? '',
    ...defined({ registry: textOf(root, 'registry'), reference: textOf(root, 'reference') }),
    maintainers: itemsOf(root, 'maintainers').map((item) =>
      defined({ name: textOf(item, 'name'), email: textOf(item, 'email'), url: textOf(item, 'url') }),
    ),
    custom: readCustom(root),
    required: readRequired(reader, root),
  };
}

function checkReference(reader: Reader, root: DocNode): void {
  const reference = textOf(root, 'reference');
  const at = childOf(root, 'reference')?.span ?? root.span;
  if (reference !== undefined && !imageReference.pattern.test(reference))
    badValue(reader, at, `the reference \`${reference}\``, 'must be REGISTRY/NAME:TAG in lower case');
  else if (reference?.includes('@'))
    badValue(
      reader,
      at,
      `the reference \`${reference}\``,
      'must not have a digest',
      'a digest is known only after publishing; name a tag',
    );
  if (reference !== undefined && textOf(root, 'registry') !== undefined)
    report(reader, at, {
      severity: 'warning',
      code: 'reference-and-registry',
      message: '`reference` and `registry` are both given; `reference` holds',
    });
}

function readCustom(root: DocNode): { readonly [key: string]: Json } {
  const custom = childOf(root, 'custom');
  return custom?.kind === 'map'
    ? Object.fromEntries(custom.entries.map((entry) => [entry.key, customJson(entry.value)]))
    : {};
}

/** `1.2.3` is text anyway; numbers stay numbers, as Porter writes them to bundle.json. */
function customJson(node: DocNode): Json {
  return toJson(node);
}

function readRequired(reader: Reader, root: DocNode): Bundle['required'] {
  return itemsOf(root, 'required').flatMap((item) => {
    if (item.kind === 'scalar' && item.value !== null) return [{ name: item.text, config: null }];
    if (item.kind === 'map' && item.entries.length === 1 && item.entries[0] !== undefined)
      return [{ name: item.entries[0].key, config: toJson(item.entries[0].value) }];
    report(reader, headOf(item), {
      code: 'wrong-type',
      message: 'an entry of `required` must be a name or a map with one key',
    });
    return [];
  });
}
