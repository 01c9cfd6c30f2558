import { join, resolve } from 'node:path';
import { ociError } from '../../oci/index.ts';
import { formatReference } from '../../oci/names/index.ts';
import { compose } from '../compose.ts';
import type { Command } from '../types.ts';
import { compressionFlag, compressionOf, readReference } from './image-common.ts';
import { held, madeResult, resultArgument, storedLayers, transferOf } from './image-edit.ts';
import { ROOTFS, readUnpacked } from './image-unpacked.ts';

export const command: Command = {
  path: 'image pack',
  summary: 'make an image of a folder that image unpack made',
  description:
    'What was changed in DIR/rootfs becomes one more layer of the image that it was unpacked from, which has to be in the store; where nothing was, NAME is that very image, with its digest. Times alone are no change. As another user than root owners, modes, attributes and devices stay what they were, and new files are root’s. Needs GNU tar.',
  arguments: [{ name: 'DIR', required: true, summary: 'a folder that `image unpack` made' }, resultArgument],
  flags: [compressionFlag('how the new layer is packed')],
  examples: [{ line: 'skycap image pack tools localhost/tools:mine', does: 'with what was changed in it' }],
  async run({ flags, arguments: [given, text] }, context) {
    const directory = resolve(context.host.cwd, given as string);
    const { name, reference } = readReference(text as string);
    const compression = compressionOf(flags);
    const unpacked = await readUnpacked(directory);
    await using rooms = compose(context);
    const store = await rooms.store();
    const images = await (await import('../../oci/index.ts')).loadImages();
    const base = await images.pinnedFromStore(store, unpacked.image, unpacked.platform);
    if (base === undefined) {
      throw ociError(
        'OCI_IMAGE_MISSING',
        `the store does not have ${unpacked.image}, which ${directory} was made of`,
        {
          hint: `bring it with skycap image pull ${unpacked.image}`,
        },
      );
    }
    await using _held = await held(store, base);
    const { owners } = unpacked;
    const { signal } = context;
    const layers = storedLayers(store, base);
    const tar = await images.changedLayer(layers, join(directory, ROOTFS), { owners, signal });
    const before = await images.readImageValue(store, base);
    if (tar === undefined) {
      const { mediaType } = before.manifest;
      const size = (await store.blobSize(base.manifestDigest)) as number;
      await store.tag(name, { mediaType, digest: base.manifestDigest, size });
      await context.result(madeResult({ ...base, reference: formatReference(reference) }));
      return 0;
    }
    const transfer = transferOf(context);
    const layer = await images.addLayer(store, { tar }, { ...transfer, compression });
    const value = images.appendLayers(before, [layer], 'skycap image pack');
    await context.result(
      madeResult(await images.writeImageValue(store, value, { ...transfer, reference: name })),
    );
    return 0;
  },
};
