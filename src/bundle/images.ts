import type { DocNode, MapEntry } from '../document/index.ts';
import { defined } from './invocation-images.ts';
import type { ReferencedImage } from './model.ts';
import { numberOf, type Reader, report, textOf, textRecordOf } from './reader.ts';
import { digest, repository, tag } from './references.ts';
import { field, integer, matching, object, record, required, text } from './shape.ts';

export const imageShape = object({
  repository: required(matching(repository), 'repository without tag or digest'),
  digest: field(matching(digest), '`sha256:` and 64 hexadecimal digits'),
  tag: field(matching(tag), '`latest` unless digest or tag is given'),
  imageType: field(text, '`docker` or `oci`'),
  mediaType: field(text, 'media type of the manifest'),
  description: field(text, 'what it is for'),
  size: field(integer(0), 'bytes'),
  labels: field(record(text), 'free text by key'),
});

export function readImage(reader: Reader, entry: MapEntry): ReferencedImage | undefined {
  const node: DocNode = entry.value;
  const name = textOf(node, 'repository');
  if (name === undefined) return undefined;
  const imageType = textOf(node, 'imageType');
  if (imageType !== undefined && !['docker', 'oci'].includes(imageType))
    report(reader, node.span, {
      severity: 'warning',
      code: 'bad-value',
      message: `the image type \`${imageType}\` is neither docker nor oci`,
    });
  const optional = {
    digest: textOf(node, 'digest') || undefined,
    tag: textOf(node, 'tag') || undefined,
    imageType,
    mediaType: textOf(node, 'mediaType'),
    description: textOf(node, 'description'),
    size: numberOf(node, 'size'),
  };
  return {
    key: entry.key,
    repository: name,
    ...defined(optional),
    labels: textRecordOf(node, 'labels'),
    span: node.span,
  };
}
