import { errorTable } from '../kernel/index.ts';

export const imagesError = errorTable({
  LOCK_MISSING: { exit: 16, summary: 'the bundle has no porter.lock' },
  LOCK_ENTRY_MISSING: { exit: 16, summary: 'porter.lock does not pin an image that the action uses' },
  LOCK_STALE: { exit: 16, summary: 'porter.lock pins another image than porter.yaml names' },
  LOCK_NAME_UNKNOWN: { exit: 16, summary: 'a name to move in porter.lock is none of the bundle' },
  LOCK_INVALID: { exit: 16, summary: 'porter.lock cannot be read' },
  LOCK_MISMATCH: {
    exit: 30,
    summary: 'what porter.lock says of an image is not what its verified bytes say',
  },
  IMAGE_PLATFORM: { exit: 21, summary: 'an image has no manifest for the wanted platform' },
  IMAGE_INTERFACE: { exit: 14, summary: 'the label dev.skycap.interface is not a valid interface' },
  IMAGE_SOURCE_LATER: { exit: 17, summary: 'images from build: or bake: cannot be run yet' },
  BUILD_CONTEXT: { exit: 17, summary: 'the folder or file that build: or bake: names cannot be read' },
});
