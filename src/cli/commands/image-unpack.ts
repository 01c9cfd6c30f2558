import { mkdir, readdir, rm, rmdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { writeFileAtomic } from '../../kernel/system/index.ts';
import { compose } from '../compose.ts';
import { usage } from '../errors.ts';
import type { Command } from '../types.ts';
import { editPlatformFlag, held, namedImage, storedImageArgument, storedLayers } from './image-edit.ts';
import { encodeUnpacked, ROOTFS, UNPACKED } from './image-unpacked.ts';

export const command: Command = {
  path: 'image unpack',
  summary: 'put the files of an image into a folder',
  description:
    'Makes DIR/rootfs with the files as a container sees them, and DIR/skycap-image.json, by which `image pack` knows what they were. A folder that the command makes is its user’s alone (mode 0700): the files may be setuid programs of a stranger; one that is there keeps its mode. As root owners, modes, attributes and devices are those of the image. As another user everything is that user’s, and devices and pipes are left out; `image pack` gives them back.',
  arguments: [storedImageArgument, { name: 'DIR', required: true, summary: 'a folder that is new or empty' }],
  flags: [editPlatformFlag],
  examples: [{ line: 'skycap image unpack ghcr.io/acme/tools:1.9 tools', does: 'into tools/rootfs' }],
  async run({ flags, arguments: [text, given] }, context) {
    const directory = resolve(context.host.cwd, given as string);
    const names = await readdir(directory).catch((error: { code?: string }) => {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    });
    const notEmpty = (): Error => usage(`${directory} is not empty`, 'name a folder that is new or empty');
    if (names !== undefined && names.length > 0) throw notEmpty();
    await using rooms = compose(context);
    const store = await rooms.store();
    const image = await namedImage(store, text as string, flags);
    await using _held = await held(store, image);
    const { unpackImage } = await (await import('../../oci/index.ts')).loadImages();
    const owners = process.geteuid?.() === 0 ? 'image' : 'user';
    const rootfs = join(directory, ROOTFS);
    // Never what somebody else puts there meanwhile: a link would lead the files out of the folder.
    const make = (path: string, mode: number): Promise<void> =>
      mkdir(path, { mode }).catch((error: { code?: string }) => {
        if (error.code === 'EEXIST') throw notEmpty();
        throw error;
      });
    if (names === undefined) {
      await mkdir(dirname(directory), { recursive: true });
      await make(directory, 0o700);
    }
    let entries: number;
    let isMade = false;
    try {
      await make(rootfs, 0o755);
      isMade = true;
      ({ entries } = await unpackImage(storedLayers(store, image), rootfs, {
        owners,
        signal: context.signal,
      }));
      await writeFileAtomic(join(directory, UNPACKED), encodeUnpacked({ image, owners }), { mode: 0o644 });
    } catch (error) {
      if (isMade) await rm(rootfs, { recursive: true, force: true, maxRetries: 5 });
      // Unless somebody put something there.
      if (names === undefined) await rmdir(directory).catch(() => undefined);
      throw error;
    }
    const { reference, manifestDigest: digest } = image;
    await context.result({
      data: { reference, digest, rootfs, entries, owners },
      text: () => `${rootfs}\n`,
    });
    return 0;
  },
};
