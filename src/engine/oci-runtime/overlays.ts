import { chmodSync, chownSync, existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Lower } from '../../oci/index.ts';
import { engineError } from '../errors.ts';
import { type Holder, ROOTS } from './holder.ts';
import { containerRoot } from './id-map.ts';
import type { RunLayout } from './layout.ts';

/** How many unmounts are gathered for one order: unmounting is a process of its own. */
const BATCH = 16;

/** Linux, fs/overlayfs/params.c, OVL_MAX_STACK. Docker has a limit of 125. */
const MOST_LAYERS = 500;

/** @throws ENGINE_START_FAILED before anything is unpacked, for an image that the kernel cannot mount */
export function checkLayers(image: string, layers: number): void {
  if (layers <= MOST_LAYERS) return;
  throw engineError(
    'ENGINE_START_FAILED',
    `image ${image} has ${layers} layers, and overlayfs takes ${MOST_LAYERS} at most`,
    {
      hint: 'make one of fewer layers, as skycap image flatten does, and use that',
      details: { image, layers, limit: MOST_LAYERS },
    },
  );
}

export interface Overlay {
  readonly name: string;
  /** As the runtime sees it, in the holder's mount namespace. */
  readonly path: string;
  /** As this process reaches it. */
  readonly reachable: string;
}

interface Layer {
  readonly name: string;
  readonly refusal: string | undefined;
}

/**
 * The roots of a session's containers: overlays over the shared layers, each mounted before its turn, so that a
 * step does not wait for mount(8).
 */
export class Overlays {
  readonly #layout: RunLayout;
  readonly #holder: Holder;
  readonly #lowers = new Map<string, string>();
  readonly #layers = new Map<string, Promise<Layer>>();
  readonly #spares = new Map<string, Promise<Overlay>>();
  /** Roots that served a container and were left as they were. */
  readonly #untouched = new Map<string, Overlay[]>();
  readonly #taken = new Map<string, Overlay>();
  readonly #retired: string[] = [];
  readonly #cleaning = new Set<Promise<void>>();
  #links = 0;
  #serial: number;

  constructor(layout: RunLayout, holder: Holder, firstSerial: number) {
    this.#layout = layout;
    this.#holder = holder;
    this.#serial = firstSerial;
    mkdirSync(layout.uppers, { recursive: true, mode: 0o700 });
    symlinkSync(layout.uppers, join(holder.folder, 'u'));
  }

  /**
   * Short relative names: the mount options of all layers must fit into one page. A layer of several images is mounted
   * once.
   *
   * @returns why a file-system image cannot be mounted, or undefined; the image is not there then
   */
  async addImage(image: string, lowers: readonly Lower[]): Promise<string | undefined> {
    const layers = await Promise.all(lowers.map((lower) => this.#layer(lower)));
    const refusal = layers.find((layer) => layer.refusal !== undefined)?.refusal;
    if (refusal !== undefined) return refusal;
    const names = layers.map((layer) => `l/${layer.name}`);
    this.#lowers.set(image, names.length === 0 ? 'l/empty' : names.reverse().join(':'));
    return undefined;
  }

  #layer(lower: Lower): Promise<Layer> {
    let layer = this.#layers.get(lower.path);
    if (layer === undefined) {
      layer = this.#addLayer(lower);
      this.#layers.set(lower.path, layer);
    }
    return layer;
  }

  async #addLayer(lower: Lower): Promise<Layer> {
    const name = String(this.#links);
    this.#links += 1;
    if (lower.kind === 'erofs') return { name, refusal: await this.#holder.mountImage(name, lower.path) };
    symlinkSync(lower.path, join(this.#holder.folder, 'l', name));
    return { name, refusal: undefined };
  }

  has(image: string): boolean {
    return this.#lowers.has(image);
  }

  /** Mounts the next root of an image, if none is waiting; `whenMounted` has it before whoever takes it. */
  prepare(image: string, whenMounted?: (overlay: Overlay) => void): void {
    if ((this.#untouched.get(image)?.length ?? 0) === 0) void this.#spare(image, whenMounted);
  }

  #spare(image: string, whenMounted?: (overlay: Overlay) => void): Promise<Overlay> {
    const waiting = this.#spares.get(image);
    if (waiting !== undefined) return waiting;
    const made = this.#mount(image).then((overlay) => {
      whenMounted?.(overlay);
      return overlay;
    });
    this.#spares.set(image, made);
    // Whoever takes it gets the error; until then it is nobody's.
    made.catch(() => {});
    return made;
  }

  /** @param until gives up waiting, with undefined; the root goes when it comes */
  take(image: string): Promise<Overlay>;
  take(image: string, until: AbortSignal): Promise<Overlay | undefined>;
  async take(image: string, until?: AbortSignal): Promise<Overlay | undefined> {
    const untouched = this.#untouched.get(image)?.pop();
    const spare = untouched === undefined ? this.#spare(image) : Promise.resolve(untouched);
    if (untouched === undefined) this.#spares.delete(image);
    const taken = until === undefined ? await spare : await unlessAborted(spare, until);
    if (taken === undefined) spare.then(({ name }) => this.retire(name)).catch(() => {});
    else this.#taken.set(taken.name, taken);
    return taken;
  }

  /** A root in which nothing has ever been mounted or made. */
  mountNew(image: string): Promise<Overlay> {
    return this.#mount(image);
  }

  /** Of a root that its container left as it was: the next one of the image gets it. */
  giveBack({ image, overlay: name }: { readonly image: string; readonly overlay: string }): void {
    const overlay = this.#taken.get(name);
    if (overlay === undefined) return;
    this.#taken.delete(name);
    this.#untouched.set(image, [...(this.#untouched.get(image) ?? []), overlay]);
  }

  /** Unmounts and deletes, but not at once and not in anybody's way. */
  retire(name: string): void {
    this.#taken.delete(name);
    this.#retired.push(name);
    if (this.#retired.length >= BATCH) this.#track(this.#holder.drop(this.#retired.splice(0)));
  }

  async settled(): Promise<void> {
    await Promise.all(this.#cleaning);
  }

  #track(work: Promise<void>): void {
    this.#cleaning.add(work);
    void work.finally(() => this.#cleaning.delete(work));
  }

  async #mount(image: string): Promise<Overlay> {
    const name = String(this.#serial);
    this.#serial += 1;
    makeUpper(join(this.#layout.uppers, name));
    const path = join(ROOTS, name);
    const reachable = this.#holder.inside(path);
    try {
      mkdirSync(reachable, { mode: 0o711 });
    } catch (cause) {
      throw this.#holder.whyGone() ?? cause;
    }
    await this.#holder.mount(name, this.#lowers.get(image) as string);
    return { name, path, reachable };
  }
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const give = (): void => resolve(undefined);
    if (signal.aborted) give();
    signal.addEventListener('abort', give, { once: true });
    void work.then(resolve, reject).finally(() => signal.removeEventListener('abort', give));
  });
}

function makeUpper(folder: string): void {
  if (existsSync(folder)) rmSync(folder, { recursive: true });
  const upper = join(folder, 'upper');
  mkdirSync(upper, { recursive: true, mode: 0o755 });
  mkdirSync(join(folder, 'work'));
  // The root of the container is the upper folder's.
  chownSync(upper, containerRoot.uid, containerRoot.gid);
  chmodSync(upper, 0o755);
}
