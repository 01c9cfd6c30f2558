import { escapeLine } from '../../kernel/index.ts';
import type { ImagePart } from '../../oci/copy/index.ts';
import type { FileNode, FileTree } from '../../oci/image/index.ts';
import { compose } from '../compose.ts';
import { formatBytes, shortDigest } from '../render/units.ts';
import type { Command } from '../types.ts';
import { platformFlag, platformOf } from './image-common.ts';
import { anyImageArgument, openImage, transportsText } from './image-ends.ts';

export const command: Command = {
  path: 'image tree',
  summary: 'show what an image consists of',
  description: `The index with its manifests, their configs and layers, and with \`--referrers\` what refers to them. With \`--files\` the files of one platform instead, as a container would see them. ${transportsText}`,
  arguments: [anyImageArgument],
  flags: [
    { ...platformFlag, summary: "with --files: the platform; without it this machine's" },
    {
      name: 'referrers',
      type: 'switch',
      summary: 'also signatures, attestations and what else refers to it',
    },
    { name: 'files', own: true, type: 'switch', summary: 'the files in place of the parts' },
  ],
  examples: [
    { line: 'skycap image tree docker://ghcr.io/acme/tools:1.9 --referrers', does: 'with its signatures' },
    { line: 'skycap image tree ghcr.io/acme/tools:1.9 --files', does: 'what is in it' },
  ],
  async run({ flags, arguments: [text] }, context) {
    const platform = platformOf(flags);
    const referrers = flags.switch('referrers');
    const wantsFiles = flags.switch('files');
    await using rooms = compose(context);
    const source = await openImage(text as string, context, rooms);
    const { readParts, readSourceImage, readSourceTree } = await (
      await import('../../oci/index.ts')
    ).loadCopy();
    const { signal, emit } = context;
    if (!wantsFiles) {
      const parts = await readParts(source, { signal, emit, referrers });
      await context.result({ data: parts, text: () => partLines(parts, '', '').join('') });
      return 0;
    }
    const { shownPath } = await (await import('../../oci/index.ts')).loadImages();
    const { value } = await readSourceImage(source, platform, { signal, emit });
    const tree = await readSourceTree(source, value, { signal, emit });
    await context.result({
      data: files(tree, shownPath),
      text: () =>
        files(tree, shownPath)
          .map((file) => `${fileLine(file)}\n`)
          .join(''),
    });
    return 0;
  },
};

function partLines(part: ImagePart, first: string, rest: string): readonly string[] {
  const words = [
    part.by === undefined ? part.kind : part.by === 'referrer' ? `referrer ${part.kind}` : part.by,
    shortDigest(part.digest),
    part.platform,
    part.isMissing ? 'not here' : formatBytes(part.sizeBytes),
    part.artifactType ?? part.mediaType,
  ];
  const line = `${first}${escapeLine(words.filter((word) => word !== undefined).join('  '))}\n`;
  const children = part.parts.flatMap((child, at) =>
    at === part.parts.length - 1
      ? partLines(child, `${rest}└─ `, `${rest}   `)
      : partLines(child, `${rest}├─ `, `${rest}│  `),
  );
  return [line, ...children];
}

interface File {
  readonly path: string;
  readonly type: string;
  readonly mode: string;
  readonly uid: number;
  readonly gid: number;
  readonly sizeBytes: number;
  readonly target?: string;
  /** The layer that it is from, counted from 1 below. */
  readonly layer: number;
}

function files(tree: FileTree, shown: (path: string) => string): readonly File[] {
  return [...tree].map(([path, node]) => fileOf(shown(path), node));
}

function fileOf(path: string, { entry, layer }: FileNode): File {
  const target =
    entry.type === 'symlink' ? Buffer.from(entry.linkPath, 'latin1').toString('utf8') : undefined;
  return {
    path,
    type: entry.type,
    mode: entry.mode.toString(8).padStart(4, '0'),
    uid: entry.uid,
    gid: entry.gid,
    sizeBytes: entry.size,
    ...(target === undefined ? {} : { target }),
    layer: layer + 1,
  };
}

function fileLine(file: File): string {
  const size = file.type === 'file' ? formatBytes(file.sizeBytes) : file.type;
  const target = file.target === undefined ? '' : ` -> ${file.target}`;
  return `${file.mode} ${`${file.uid}:${file.gid}`.padEnd(9)} ${size.padStart(9)}  ${escapeLine(file.path + target)}`;
}
