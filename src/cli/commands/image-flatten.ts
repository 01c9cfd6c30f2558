import { compose } from '../compose.ts';
import type { Command } from '../types.ts';
import {
  editPlatformFlag,
  held,
  madeResult,
  namedImage,
  resultArgument,
  storedImageArgument,
  storedLayers,
  transferOf,
} from './image-edit.ts';

export const command: Command = {
  path: 'image flatten',
  summary: 'merge the layers of an image into one',
  description:
    'The files stay what a container sees. With `--keep` the lowest layers stay, and those above are merged. Signatures of the old image do not hold for the new one.',
  arguments: [storedImageArgument, resultArgument],
  flags: [
    editPlatformFlag,
    {
      name: 'keep',
      own: true,
      type: 'integer',
      value: 'COUNT',
      default: '0',
      summary: 'how many of the lowest layers stay as they are',
    },
  ],
  examples: [{ line: 'skycap image flatten localhost/app:1 localhost/app:flat', does: 'one layer' }],
  async run({ flags, arguments: [text, name] }, context) {
    const keep = flags.integer('keep') ?? 0;
    await using rooms = compose(context);
    const store = await rooms.store();
    const base = await namedImage(store, text as string, flags);
    await using _held = await held(store, base);
    const images = await (await import('../../oci/index.ts')).loadImages();
    const before = await images.readImageValue(store, base);
    images.checkKeep(before, keep);
    const transfer = transferOf(context);
    const merged = images.mergeLayers(storedLayers(store, base).slice(keep), {
      signal: context.signal,
      keepWhiteouts: keep > 0,
    });
    const layer = await images.addLayer(store, { tar: merged }, transfer);
    const value = images.squash(before, keep, layer);
    const image = await images.writeImageValue(store, value, { ...transfer, reference: name as string });
    await context.result(madeResult(image));
    return 0;
  },
};
