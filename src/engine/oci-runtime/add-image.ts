import type { Lower, OciEvent, PinnedImage } from '../../oci/index.ts';
import type { OperationOptions } from '../port.ts';
import type { SessionHost } from './create.ts';
import type { Holder } from './holder.ts';
import { embeddedIdMap } from './id-map.ts';
import type { Overlays } from './overlays.ts';

/** Where an image's layers are to be mounted. */
export interface ImagePlace {
  readonly host: SessionHost;
  readonly operation: OperationOptions;
  readonly overlays: Overlays;
  readonly holder: Holder;
}

/** Layers as file-system images where this host takes them, else as folders. */
export async function addImage(
  image: string,
  pinned: PinnedImage,
  { host, operation, overlays, holder }: ImagePlace,
): Promise<void> {
  const { store, layers } = host;
  const { signal, emit } = operation;
  emit({ type: 'engine.image', image, phase: 'loading' });
  const folders = new Map<string, string>();
  const hear = (event: OciEvent): void => {
    if (event.type === 'layer.folder') folders.set(event.diffId, event.because);
  };
  const lowers = async (): Promise<readonly Lower[]> =>
    await store.lowers(pinned, embeddedIdMap, { signal, emit: hear, form: layers.form });
  const found = await lowers();
  if (layers.form === 'erofs') await holder.ready;
  const refusal = await overlays.addImage(image, found);
  if (refusal !== undefined) {
    layers.refuse(`this host does not mount file-system images: ${refusal}`);
    emit({ type: 'engine.notice', message: `layers are unpacked into folders: ${layers.because}` });
    await overlays.addImage(image, await lowers());
  }
  const { form } = layers;
  const [some] = form === 'erofs' ? folders.entries() : [];
  const because =
    some === undefined
      ? layers.because
      : `${folders.size} of ${pinned.layers.length} layers are folders: ${some[0]} ${some[1]}`;
  emit({
    type: 'engine.image',
    image,
    phase: 'ready',
    layers: form,
    ...(because === undefined ? {} : { because }),
  });
}
