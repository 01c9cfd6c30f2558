import { isDigest, normalizePlatform, userFault } from '../names/index.ts';
import type { Descriptor, Digest, ImageRunConfig, Platform } from '../types.ts';
import { Fields, isObject, type JsonObject, parseStrictJson } from './json.ts';
import { isIndexType, isManifestType, OCI_INDEX, OCI_MANIFEST } from './media-types.ts';

/** image-spec, manifest.md, or Docker's image manifest version 2, schema 2. */
export interface Manifest {
  readonly kind: 'manifest';
  readonly mediaType: string;
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
  readonly annotations: Readonly<Record<string, string>>;
  readonly subject?: Descriptor;
  readonly artifactType?: string;
}

/** image-spec, image-index.md, or Docker's manifest list. */
export interface Index {
  readonly kind: 'index';
  readonly mediaType: string;
  readonly manifests: readonly Descriptor[];
  readonly annotations: Readonly<Record<string, string>>;
  readonly subject?: Descriptor;
}

/** What an image config says that matters for running it (image-spec, config.md). */
export interface ImageConfig {
  readonly platform: Platform;
  readonly run: ImageRunConfig;
  readonly diffIds: readonly Digest[];
  /** The document as it is, unknown fields included. */
  readonly raw: JsonObject;
}

const MAX_CHILDREN = 4096;

/** image-spec, descriptor.md. Unknown fields are ignored, as the specification asks. */
export function parseDescriptor(value: unknown, name: string, fields: Fields): Descriptor {
  const object = fields.object(value, name);
  const { mediaType, digest, size } = object;
  if (typeof mediaType !== 'string' || mediaType === '') throw fields.fail(`${name}.mediaType is missing`);
  if (!isDigest(digest)) throw fields.fail(`${name}.digest is not a digest`);
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) {
    throw fields.fail(`${name}.size is not a size in bytes`);
  }
  const platform = object.platform == null ? undefined : parsePlatformObject(object.platform, name, fields);
  const annotations = fields.map(object.annotations, `${name}.annotations`);
  const artifactType = fields.string(object.artifactType, `${name}.artifactType`);
  const data = fields.string(object.data, `${name}.data`);
  const urls = fields.strings(object.urls, `${name}.urls`);
  return {
    mediaType,
    digest,
    size,
    ...(platform === undefined ? {} : { platform }),
    ...(annotations === undefined ? {} : { annotations }),
    ...(artifactType === undefined ? {} : { artifactType }),
    ...(data === undefined ? {} : { data }),
    ...(urls === undefined ? {} : { urls }),
  };
}

function parsePlatformObject(value: unknown, name: string, fields: Fields): Platform {
  const object = fields.object(value, `${name}.platform`);
  const read = (key: string): string | undefined => fields.string(object[key], `${name}.platform.${key}`);
  const variant = read('variant');
  const osVersion = read('os.version');
  return normalizePlatform({
    os: read('os') ?? '',
    architecture: read('architecture') ?? '',
    ...(variant === undefined || variant === '' ? {} : { variant }),
    ...(osVersion === undefined || osVersion === '' ? {} : { osVersion }),
  });
}

/**
 * A manifest or an index, told apart by its own fields. A body that could be read as both is refused
 * (CVE-2021-41190), and so is one whose `mediaType` is not the one it was announced with.
 *
 * @param announced The media type of the descriptor that led here; undefined where nothing did.
 * @throws OCI_MANIFEST_INVALID
 */
export function parseManifestOrIndex(bytes: Uint8Array, announced: string | undefined): Manifest | Index {
  const fields = new Fields('a manifest');
  const object = fields.object(parseStrictJson(bytes, 'a manifest'), 'the document');
  if (object.schemaVersion !== 2) throw fields.fail('schemaVersion is not 2');
  const own = fields.string(object.mediaType, 'mediaType');
  if (own !== undefined && announced !== undefined && own !== announced) {
    throw fields.fail(`it says mediaType ${own} and was announced as ${announced}`);
  }
  const has = (key: string): boolean => object[key] !== undefined && object[key] !== null;
  if (has('manifests') && (has('layers') || has('config')))
    throw fields.fail('it is both a manifest and an index');
  if (has('fsLayers') || has('history')) throw fields.fail('it is a schema 1 manifest too');
  const type = own ?? announced ?? (has('manifests') ? OCI_INDEX : OCI_MANIFEST);
  if (isIndexType(type)) return readIndex(object, type, fields);
  if (isManifestType(type)) return readManifest(object, type, fields);
  throw fields.fail(`its media type ${type} is not known`);
}

/** A manifest (image-spec, manifest.md), read as `parseManifestOrIndex` does. @throws OCI_MANIFEST_INVALID */
export function parseManifest(bytes: Uint8Array, announced?: string): Manifest {
  const parsed = parseManifestOrIndex(bytes, announced);
  if (parsed.kind !== 'manifest') throw new Fields('a manifest').fail('it is an index');
  return parsed;
}

/** An index (image-spec, image-index.md), read as `parseManifestOrIndex` does. @throws OCI_MANIFEST_INVALID */
export function parseIndex(bytes: Uint8Array, announced?: string): Index {
  const parsed = parseManifestOrIndex(bytes, announced);
  if (parsed.kind !== 'index') throw new Fields('an index').fail('it is a manifest');
  return parsed;
}

function readManifest(object: JsonObject, mediaType: string, fields: Fields): Manifest {
  const list = fields.list(object.layers, 'layers') ?? [];
  if (list.length > MAX_CHILDREN) throw fields.fail(`it has more than ${MAX_CHILDREN} layers`);
  const artifactType = fields.string(object.artifactType, 'artifactType');
  return {
    kind: 'manifest',
    mediaType,
    config: parseDescriptor(object.config, 'config', fields),
    layers: list.map((layer, index) => parseDescriptor(layer, `layers[${index}]`, fields)),
    ...common(object, fields),
    ...(artifactType === undefined ? {} : { artifactType }),
  };
}

function readIndex(object: JsonObject, mediaType: string, fields: Fields): Index {
  const list = fields.list(object.manifests, 'manifests');
  if (list === undefined) throw fields.fail('manifests is missing');
  if (list.length > MAX_CHILDREN) throw fields.fail(`it has more than ${MAX_CHILDREN} manifests`);
  return {
    kind: 'index',
    mediaType,
    manifests: list.map((child, index) => parseDescriptor(child, `manifests[${index}]`, fields)),
    ...common(object, fields),
  };
}

function common(object: JsonObject, fields: Fields): Pick<Manifest, 'annotations' | 'subject'> {
  const subject = object.subject;
  return {
    annotations: fields.map(object.annotations, 'annotations') ?? {},
    ...(subject == null ? {} : { subject: parseDescriptor(subject, 'subject', fields) }),
  };
}

/**
 * image-spec, config.md. `null` is absent, unknown fields stay in `raw`.
 *
 * @param layers How many layers the manifest has; the config must name as many diffIDs.
 * @throws OCI_MANIFEST_INVALID
 */
export function parseImageConfig(bytes: Uint8Array, layers: number): ImageConfig {
  const fields = new Fields('an image config');
  const raw = fields.object(parseStrictJson(bytes, 'an image config'), 'the document');
  const rootfs = fields.object(raw.rootfs, 'rootfs');
  if (rootfs.type !== 'layers') throw fields.fail('rootfs.type is not "layers"');
  const diffIds = fields.list(rootfs.diff_ids, 'rootfs.diff_ids') ?? [];
  for (const diffId of diffIds) {
    if (!isDigest(diffId)) throw fields.fail('rootfs.diff_ids holds something that is not a digest');
  }
  if (diffIds.length !== layers) {
    throw fields.fail(`it names ${diffIds.length} diff_ids for ${layers} layers`);
  }
  const filled = (fields.list(raw.history, 'history') ?? []).filter(
    (step) => !(isObject(step) && step.empty_layer === true),
  );
  if (filled.length > 0 && filled.length !== layers) {
    throw fields.fail(`its history tells of ${filled.length} layers, and there are ${layers}`);
  }
  return {
    platform: parsePlatformObject(raw, 'config', fields),
    run: runConfig(raw.config == null ? {} : fields.object(raw.config, 'config'), fields),
    diffIds: diffIds as readonly Digest[],
    raw,
  };
}

function runConfig(config: JsonObject, fields: Fields): ImageRunConfig {
  const user = fields.string(config.User, 'config.User') ?? '';
  const fault = userFault(user);
  if (fault !== undefined) throw fields.fail(`config.User ${fault}`);
  const stopSignal = fields.string(config.StopSignal, 'config.StopSignal');
  const env = fields.strings(config.Env, 'config.Env') ?? [];
  for (const item of env) {
    if (item.includes('\0') || item.startsWith('='))
      throw fields.fail('config.Env holds an item without a name');
  }
  return {
    entrypoint: fields.strings(config.Entrypoint, 'config.Entrypoint') ?? [],
    cmd: fields.strings(config.Cmd, 'config.Cmd') ?? [],
    env,
    user,
    workingDir: fields.string(config.WorkingDir, 'config.WorkingDir') ?? '',
    labels: fields.map(config.Labels, 'config.Labels') ?? {},
    ...(stopSignal === undefined || stopSignal === '' ? {} : { stopSignal }),
  };
}
