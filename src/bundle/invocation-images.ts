import { childOf, type DocNode } from '../document/index.ts';
import type { ImageSource, InvocationImage } from './model.ts';
import {
  badValue,
  boolOf,
  headOf,
  itemsOf,
  numberOf,
  type Reader,
  report,
  textOf,
  textRecordOf,
  textsOf,
} from './reader.ts';
import { imageReference } from './references.ts';
import {
  bool,
  either,
  field,
  imageName,
  integer,
  list,
  matching,
  nonEmpty,
  object,
  oneOf,
  plainName,
  record,
  required,
  text,
} from './shape.ts';
import { parseCpus, parseSize } from './units.ts';

const platform = {
  pattern: /^[a-z0-9]+\/[a-z0-9_]+(?:\/[a-z0-9.]+)?$/,
  says: 'like `linux/amd64` or `linux/arm64/v8`',
};
const user = {
  pattern: /^[A-Za-z0-9_][A-Za-z0-9_.-]*(?::[A-Za-z0-9_][A-Za-z0-9_.-]*)?$/,
  says: 'a user, or user:group, by name or number',
};
const bake = { pattern: /^[^#\s]+#[^#\s]+$/, says: 'a file and a name in it, like `./images.yaml#ansible`' };

const buildShape = object({
  context: required(matching(nonEmpty), 'the folder that is sent to the build'),
  dockerfile: field(matching(nonEmpty), '`Dockerfile` in the context unless given'),
  target: field(text, 'the stage to stop at'),
  args: field(record(text), 'build arguments'),
  secrets: field(list(matching(plainName)), 'names of secrets that the build may mount'),
});

export const invocationImageShape = object({
  name: required(matching(imageName), 'the name that steps use'),
  image: field(matching(imageReference), 'tag, digest or both'),
  build: field(either(matching(nonEmpty), buildShape), 'as in compose: a folder, or a map'),
  bake: field(matching(bake), 'an image declared for baking'),
  platform: field(matching(platform), 'platform to take from an index; the engine’s unless given'),
  credentials: field(list(text), 'credentials that steps of this image see when they name none'),
  parameters: field(list(text), 'parameters that steps of this image see when they name none'),
  home: field(oneOf('own', 'shared'), '`shared`: one HOME and /tmp for all steps of a run that share'),
  workspace: field(oneOf('rw', 'ro', 'none'), 'how the bundle’s files are mounted'),
  network: field(oneOf('none', 'default', 'host'), '`host` needs the operator’s consent'),
  docker: field(bool, 'wants the Docker socket; needs the operator’s consent'),
  user: field(matching(user), 'the image’s own unless given'),
  resources: field(
    object({
      cpus: field(text, 'like `1`, `0.5` or `500m`'),
      memory: field(text, 'like `512Mi` or `1G`'),
      pids: field(integer(1, 4_194_304), 'most processes at once'),
    }),
    'limits; none unless given',
  ),
  volumes: field(
    list(
      object({
        name: required(matching(imageName), 'volumes of one name are one volume'),
        path: required(matching({ pattern: /^\//, says: 'absolute' }), 'where it is mounted'),
        scope: field(oneOf('run', 'installation'), 'how long it lives; `run` unless given'),
      }),
    ),
    'folders that outlive a step',
  ),
});

export function readInvocationImage(
  reader: Reader,
  node: DocNode,
  label: string,
): InvocationImage | undefined {
  const name = textOf(node, 'name');
  const source = readImageSource(reader, node, label);
  if (name === undefined || source === undefined) return undefined;
  const optional = {
    platform: textOf(node, 'platform'),
    credentials: textsOf(node, 'credentials'),
    parameters: textsOf(node, 'parameters'),
    user: textOf(node, 'user'),
  };
  return {
    name,
    source,
    ...defined(optional),
    home: (textOf(node, 'home') ?? 'own') as InvocationImage['home'],
    workspace: (textOf(node, 'workspace') ?? 'rw') as InvocationImage['workspace'],
    network: (textOf(node, 'network') ?? 'default') as InvocationImage['network'],
    docker: boolOf(node, 'docker') ?? false,
    resources: readResources(reader, childOf(node, 'resources'), label),
    volumes: itemsOf(node, 'volumes').flatMap((item, i) =>
      readVolume(reader, item, `${label}.volumes[${i}]`),
    ),
    span: node.span,
  };
}

/** Leaves undefined members out (exactOptionalPropertyTypes). */
export function defined<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

function readImageSource(reader: Reader, node: DocNode, label: string): ImageSource | undefined {
  const image = textOf(node, 'image');
  const build = childOf(node, 'build');
  const baked = textOf(node, 'bake');
  const given = [image, build, baked].filter((source) => source !== undefined).length;
  if (given !== 1) {
    if (node.kind === 'map')
      report(reader, headOf(node), {
        code: given === 0 ? 'missing-key' : 'conflicting-keys',
        message: `${label} needs exactly one of \`image\`, \`build\` and \`bake\`, and has ${given === 0 ? 'none' : given}`,
        hint: given === 0 ? 'add `image:` with the reference of an image' : 'keep one of them',
      });
    return undefined;
  }
  if (image !== undefined) return { kind: 'registry', image };
  if (baked !== undefined) {
    const hash = baked.indexOf('#');
    return hash < 0 ? undefined : { kind: 'bake', file: baked.slice(0, hash), name: baked.slice(hash + 1) };
  }
  if (build?.kind === 'scalar') return { kind: 'build', context: build.text, args: {}, secrets: [] };
  const context = textOf(build, 'context');
  if (context === undefined) return undefined;
  return {
    kind: 'build',
    context,
    ...defined({ dockerfile: textOf(build, 'dockerfile'), target: textOf(build, 'target') }),
    args: textRecordOf(build, 'args'),
    secrets: textsOf(build, 'secrets') ?? [],
  };
}

function readResources(
  reader: Reader,
  node: DocNode | undefined,
  label: string,
): InvocationImage['resources'] {
  const cpusText = textOf(node, 'cpus');
  const memoryText = textOf(node, 'memory');
  const cpus = cpusText === undefined ? undefined : parseCpus(cpusText);
  const memoryBytes = memoryText === undefined ? undefined : parseSize(memoryText);
  if (cpusText !== undefined && cpus === undefined)
    badValue(
      reader,
      childOf(node, 'cpus')?.span ?? { start: 0, end: 0 },
      `${label}.resources.cpus \`${cpusText}\``,
      'must be a number of CPUs like `1`, `0.5` or `500m`',
    );
  if (memoryText !== undefined && memoryBytes === undefined)
    badValue(
      reader,
      childOf(node, 'memory')?.span ?? { start: 0, end: 0 },
      `${label}.resources.memory \`${memoryText}\``,
      'must be a size like `512Mi` or `1G`',
    );
  return defined({ cpus, memoryBytes, pids: numberOf(node, 'pids') });
}

/** Folders of the image or of Skycap's contract that a volume may not cover (docs/security.md). */
const COVERED = [
  '/cnab',
  '/etc',
  '/usr',
  '/proc',
  '/sys',
  '/dev',
  '/bin',
  '/sbin',
  '/lib',
  '/lib64',
  '/run/secrets',
];

function readVolume(reader: Reader, node: DocNode, label: string): InvocationImage['volumes'] {
  const name = textOf(node, 'name');
  const written = textOf(node, 'path');
  if (name === undefined || written === undefined) return [];
  const at = childOf(node, 'path')?.span ?? node.span;
  const parts = written.split('/').filter((part) => part !== '' && part !== '.');
  const path = `/${parts.join('/')}`;
  const covered = COVERED.find((folder) => path === folder || path.startsWith(`${folder}/`));
  if (parts.includes('..'))
    report(reader, at, { code: 'volume-path', message: `${label}.path \`${written}\` holds \`..\`` });
  else if (path === '/' || covered !== undefined)
    report(reader, at, {
      code: 'volume-path',
      message: `${label} would cover \`${covered ?? '/'}\`, which belongs to the image or to Skycap`,
      hint: 'mount it elsewhere, such as /cache or below the HOME of the image',
    });
  return [{ name, path, scope: (textOf(node, 'scope') ?? 'run') as 'run' | 'installation' }];
}
