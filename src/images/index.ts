export type { DescribedImage, ImageAccess } from './access.ts';
export { type BuildInputs, baseImages } from './build-inputs.ts';
export { imagesError } from './errors.ts';
export { lockFacts } from './facts.ts';
export {
  type ImageInterface,
  interfaceLabel,
  interfaceProblem,
  parseInterface,
  readInterface,
} from './interface.ts';
export {
  emptyLock,
  formatLock,
  type Lock,
  type LockedImage,
  type LockedReference,
  parseLock,
} from './lock.ts';
export { type LockChange, type LockRequest, makeLock } from './make-lock.ts';
export { lockedPlatform, type PinRequest, pinImages, pinReferences } from './pin.ts';
export { type TagsNow, tagsNow } from './tags-now.ts';

/** Loads `createImageAccess`: images of registries and of the store. */
export async function loadImageAccess(): Promise<typeof import('./registry-access.ts')> {
  return import('./registry-access.ts');
}
