export type { VirtualFile } from '../layer/index.ts';
export {
  addLayer,
  buildImage,
  type ImportOptions,
  importRootfs,
  type LayerSource,
  type NewConfig,
  type RootfsOptions,
} from './build.ts';
export {
  type ImageConfig,
  type Index,
  type Manifest,
  parseImageConfig,
  parseIndex,
  parseManifest,
  parseManifestOrIndex,
} from './parse.ts';
export { pinnedFromStore } from './pinned.ts';
