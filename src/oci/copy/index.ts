export { type Copied, type CopyOptions, copyImage } from './copy.ts';
export { type Ends, formatTransport, openSource, openTarget } from './open.ts';
export { type PackOptions, packedSource } from './packed-source.ts';
export { readSmallBlob } from './plan.ts';
export {
  type ImagePart,
  readParts,
  readSourceImage,
  readSourceTree,
  type SourceImage,
} from './read.ts';
export { parseTransport, type Transport } from './transport.ts';
export type { ImageSource, ImageTarget } from './types.ts';
export { type Finding, type Validation, validateImage } from './validate.ts';
