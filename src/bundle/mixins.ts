import { type DocNode, type Json, toJson } from '../document/index.ts';
import type { Bundle } from './model.ts';
import { headOf, itemsOf, type Reader, report } from './reader.ts';

/** Masterminds/semver constraints as far as they can be told from nonsense: comparators joined by blanks, `,`, `||`. */
const CONSTRAINT =
  /^\s*(?:(?:[<>=!~^]{0,2}\s*v?(?:\d+|[xX*])(?:\.(?:\d+|[xX*])){0,2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)(?:\s+-\s+|\s*,\s*|\s*\|\|\s*|\s+|$))+$/;

type Mixin = Bundle['mixins'][number];

/** `mixins:` as a list of names, `name@constraint` or one-key maps with the mixin's configuration. */
export function readMixins(reader: Reader, root: DocNode): readonly Mixin[] {
  return itemsOf(root, 'mixins').flatMap((item) => readMixin(reader, item));
}

function readMixin(reader: Reader, node: DocNode): readonly Mixin[] {
  if (node.kind === 'scalar')
    return node.value === null ? [] : declaration(reader, node, { text: node.text, config: null });
  const complain = (message: string) =>
    report(reader, headOf(node), {
      code: 'mixin-declaration',
      message,
      hint: 'write `- NAME`, `- NAME@1.x` or `- NAME: {its configuration}`',
    });
  if (node.kind === 'seq') complain('a mixin declaration must be a name or a map');
  else if (node.entries.length !== 1)
    complain(`a mixin declaration names one mixin, and this one has ${node.entries.length} keys`);
  else {
    const entry = node.entries[0];
    if (entry !== undefined)
      return declaration(
        reader,
        { ...node, span: entry.keySpan },
        { text: entry.key, config: toJson(entry.value) },
      );
  }
  return [];
}

function declaration(
  reader: Reader,
  node: DocNode,
  written: { readonly text: string; readonly config: Json },
): readonly Mixin[] {
  const [name = '', version, ...more] = written.text.split('@');
  if (name === '' || more.length > 0) {
    report(reader, node.span, {
      code: 'mixin-version',
      message: `\`${written.text}\` is no mixin declaration: NAME or NAME@CONSTRAINT is wanted`,
    });
    return [];
  }
  if (version === undefined) return [{ name, config: written.config }];
  // The length is limited because the pattern looks ahead within a part.
  if (version.length > 200 || !CONSTRAINT.test(version))
    report(reader, node.span, {
      code: 'mixin-version',
      message: `the mixin \`${name}\` has the version constraint \`${version}\`, which is none`,
      hint: 'write something like `@1.2.3`, `@^1.2` or `@>=2`',
    });
  return [{ name, version, config: written.config }];
}
