import type { ImageValue } from '../../oci/image/index.ts';
import type { PinnedImage, Store } from '../../oci/index.ts';
import { compose } from '../compose.ts';
import type { Command } from '../types.ts';
import { platformOf } from './image-common.ts';
import {
  editPlatformFlag,
  held,
  madeResult,
  namedImage,
  resultArgument,
  storedImage,
  storedImageArgument,
  storedLayers,
  transferOf,
} from './image-edit.ts';

export const command: Command = {
  path: 'image rebase',
  summary: 'put an image on another base without building it',
  description:
    'The base’s layers are exchanged, the image’s own stay. Refused where that cannot be known to be safe: where the image’s base ends must be on record or given by --old-base; platform, distribution and stack must be equal; the image’s own layers may not replace, delete or hide files of either base. All three images are in the store. Signatures of the old image do not hold for the new one.',
  arguments: [storedImageArgument, resultArgument],
  flags: [
    editPlatformFlag,
    {
      name: 'base',
      own: true,
      type: 'string',
      value: 'IMAGE',
      summary: 'the new base, an image of the store',
    },
    {
      name: 'old-base',
      own: true,
      type: 'string',
      value: 'IMAGE',
      summary: 'the base that the image was built upon, where it is not on record',
    },
    {
      name: 'allow-conflicts',
      own: true,
      type: 'switch',
      summary: 'let files of the image win over files of the bases',
    },
  ],
  examples: [
    {
      line: 'skycap image rebase localhost/app:1 localhost/app:1.1 --base ghcr.io/acme/base:2',
      does: 'on the patched base',
    },
  ],
  async run({ flags, arguments: [text, name] }, context) {
    const { usage } = await import('../errors.ts');
    const platform = platformOf(flags);
    const [newName, oldName] = [flags.string('base'), flags.string('old-base')];
    const allowConflicts = flags.switch('allow-conflicts');
    if (newName === undefined) throw usage('no new base is named', 'name one with --base IMAGE');
    await using rooms = compose(context);
    const store = await rooms.store();
    const image = await namedImage(store, text as string, flags);
    const newBase = await storedImage(store, newName, platform);
    const oldBase = oldName === undefined ? undefined : await storedImage(store, oldName, platform);
    await using _image = await held(store, image);
    await using _base = await held(store, newBase);
    const images = await (await import('../../oci/index.ts')).loadImages();
    const before = await images.readImageValue(store, image);
    const old = oldBase && { image: await images.readImageValue(store, oldBase), digest: oldBase.digest };
    const split = images.baseSplit(before, old);
    const conflicts =
      allowConflicts || typeof split !== 'number' || split < 0
        ? []
        : await findConflicts(store, { image, newBase, split, signal: context.signal });
    const value: ImageValue = images.rebase(before, {
      conflicts,
      ...(old === undefined ? {} : { oldBase: old }),
      newBase: {
        image: await images.readImageValue(store, newBase),
        name: newBase.reference.replace(/@.*$/, ''),
        digest: newBase.digest,
      },
    });
    const options = { ...transferOf(context), reference: name as string };
    await context.result(madeResult(await images.writeImageValue(store, value, options)));
    return 0;
  },
};

async function findConflicts(
  store: Store,
  given: {
    readonly image: PinnedImage;
    readonly newBase: PinnedImage;
    readonly split: number;
    readonly signal: AbortSignal;
  },
): Promise<readonly string[]> {
  const { image, newBase, split, signal } = given;
  const { baseConflicts, readTree } = await (await import('../../oci/index.ts')).loadImages();
  const layers = storedLayers(store, image);
  const own = await readTree(layers.slice(split), { signal, keepWhiteouts: true });
  const oldTree = await readTree(layers.slice(0, split), { signal });
  return baseConflicts(own, oldTree, await readTree(storedLayers(store, newBase), { signal }));
}
