import type { PinnedImage, PinnedLayer, Store } from '../../oci/index.ts';
import { decompress, encodeEntry, endOfArchive, padding } from '../../oci/layer/index.ts';
import type { DockerApi } from './api.ts';
import { dockerError } from './errors.ts';
import { fileItem } from './tar.ts';

const ROOT = { uid: 0, gid: 0 };

/** Where the daemon can pull from: the built-in registry on loopback. */
export interface ImageServer {
  /** `127.0.0.1:PORT` */
  readonly host: string;
}

export interface ImageSourceOptions {
  readonly store: Pick<Store, 'readBlob' | 'readSmall'>;
  /** Undefined where the daemon does not share our loopback: images go as archives. */
  readonly serve?: (() => Promise<ImageServer>) | undefined;
  readonly signal: AbortSignal;
}

/**
 * Brings an image from the store to the daemon and gives the daemon's id of it. What runs is what was verified: the
 * id must be the digest of the pinned config (or, with a containerd image store, of the manifest), so a daemon that
 * holds other bytes under some name cannot put them in its place.
 *
 * @throws ENGINE_DOCKER_IMAGE
 */
export async function ensureImage(
  api: DockerApi,
  image: PinnedImage,
  options: ImageSourceOptions,
): Promise<string> {
  const present = await idOf(api, image);
  if (present !== undefined) return present;
  if (!(await pull(api, image, options))) await load(api, image, options);
  const id = await idOf(api, image);
  if (id !== undefined) return id;
  throw dockerError(
    'ENGINE_DOCKER_IMAGE',
    `the Docker daemon took ${image.reference} and now holds another image`,
    {
      hint: 'run: skycap image fsck',
      details: { expected: image.configDigest },
    },
  );
}

/** The daemon's id of an image that it has, whatever its names. */
export async function idOf(api: DockerApi, image: PinnedImage): Promise<string | undefined> {
  for (const digest of [image.configDigest, image.manifestDigest]) {
    const answer = await api.request({
      path: `/images/${digest}/json`,
      accept: [404],
      doing: `look at image ${digest}`,
    });
    const text = await answer.text(1 << 24);
    if (answer.status === 404) continue;
    const { Id } = JSON.parse(text) as { readonly Id: string };
    if (Id === digest) return digest;
  }
  return undefined;
}

/** False where the daemon cannot reach our loopback or cannot read what is there; then an archive goes. */
async function pull(api: DockerApi, image: PinnedImage, options: ImageSourceOptions): Promise<boolean> {
  // Docker 20.10 reads no zstd layers; an archive carries them unpacked.
  if (options.serve === undefined || image.layers.some((layer) => layer.mediaType.endsWith('+zstd')))
    return false;
  // A registry with a port in its name cannot stand in a path.
  if (image.repository.includes(':')) return false;
  const name = `${(await options.serve()).host}/${image.repository}`;
  const answer = await api.request({
    method: 'POST',
    path: '/images/create',
    query: { fromImage: name, tag: image.manifestDigest },
    signal: options.signal,
    accept: [400, 403, 404, 500],
    doing: `pull ${image.reference}`,
  });
  const failure = answer.status === 200 ? await failureIn(answer.body) : await answer.text(1 << 20);
  if (failure !== undefined) return false;
  await tag(api, image);
  // The name with our port means nothing later on; the tag keeps the image.
  await api.run({
    method: 'DELETE',
    path: `/images/${name}@${image.manifestDigest}`,
    query: { noprune: '1' },
    accept: [404, 409],
    doing: 'drop a name of an image',
  });
  return true;
}

async function load(api: DockerApi, image: PinnedImage, options: ImageSourceOptions): Promise<void> {
  const answer = await api.request({
    method: 'POST',
    path: '/images/load',
    query: { quiet: '1' },
    body: dockerArchive(image, options),
    signal: options.signal,
    doing: `load ${image.reference}`,
  });
  const failure = await failureIn(answer.body);
  if (failure !== undefined) {
    throw dockerError(
      'ENGINE_DOCKER_IMAGE',
      `the Docker daemon could not load ${image.reference}: ${failure}`,
      {
        hint: /no space/i.test(failure)
          ? 'make room where the daemon keeps its images'
          : 'run: skycap image fsck',
      },
    );
  }
  await tag(api, image);
}

/** A name, so that `docker images` says what it is and `docker image prune` leaves it. */
async function tag(api: DockerApi, image: PinnedImage): Promise<void> {
  await api.run({
    method: 'POST',
    path: `/images/${image.configDigest}/tag`,
    query: { repo: tagRepository(image.repository), tag: image.configDigest.split(':')[1]?.slice(0, 12) },
    accept: [400, 404, 409, 500],
    doing: 'name an image',
  });
}

/** Host and port of the original become a part of the path. */
export function tagRepository(repository: string): string {
  return `skycap/${repository.toLowerCase().replace(/[^a-z0-9./_-]+/g, '-')}`;
}

/** Answers of pull and load are 200 whatever happened; errors stand in the lines (a cut-off stream is one too). */
async function failureIn(body: AsyncIterable<Uint8Array>): Promise<string | undefined> {
  let rest = '';
  let failure: string | undefined;
  const decoder = new TextDecoder();
  const take = (line: string): void => {
    if (line.trim() === '') return;
    try {
      const { error, errorDetail } = JSON.parse(line) as {
        error?: string;
        errorDetail?: { message?: string };
      };
      failure ??= error ?? errorDetail?.message;
    } catch {
      failure ??= `an answer that is not JSON: ${line.slice(0, 200)}`;
    }
  };
  for await (const chunk of body) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) take(line);
  }
  take(rest);
  return failure;
}

/** The archive of `docker save`: config by its digest, layers as plain tars, which the daemon checks by diff id. */
async function* dockerArchive(image: PinnedImage, options: ImageSourceOptions): AsyncGenerator<Uint8Array> {
  const { store } = options;
  const config = Buffer.from(await store.readSmall(image.configDigest));
  const hex = image.configDigest.split(':')[1] as string;
  const layerFile = (layer: PinnedLayer): string => `${layer.diffId.split(':')[1]}.tar`;
  const manifest = [{ Config: `${hex}.json`, RepoTags: null, Layers: image.layers.map(layerFile) }];
  yield* whole(`${hex}.json`, config);
  const seen = new Set<string>();
  for (const layer of image.layers) {
    const name = layerFile(layer);
    if (seen.has(name)) continue;
    seen.add(name);
    options.signal.throwIfAborted();
    yield* layerEntry(name, layer, store);
  }
  yield* whole('manifest.json', Buffer.from(JSON.stringify(manifest)));
  yield endOfArchive();
}

async function* layerEntry(
  name: string,
  layer: PinnedLayer,
  store: Pick<Store, 'readBlob'>,
): AsyncGenerator<Uint8Array> {
  if (!layer.mediaType.endsWith('+zstd')) {
    // The daemon unpacks gzip itself: the blob goes as it is, whatever its media type says.
    yield header(name, layer.size);
    yield* store.readBlob(layer.digest);
    yield padding(layer.size);
    return;
  }
  // A tar header needs the size first: measured in one pass, sent in a second.
  let size = 0;
  for await (const chunk of decompress(store.readBlob(layer.digest))) size += chunk.length;
  yield header(name, size);
  yield* decompress(store.readBlob(layer.digest));
  yield padding(size);
}

async function* whole(path: string, content: Buffer): AsyncGenerator<Uint8Array> {
  yield header(path, content.length);
  yield content;
  yield padding(content.length);
}

function header(path: string, size: number): Buffer {
  const { entry } = fileItem(path, new Uint8Array(0), { mode: 0o644, owner: ROOT });
  return encodeEntry({ ...entry, path, size });
}
