export type { VirtualFile } from '../layer/index.ts';
export { appendLayer, buildIndex, type ChangeOptions, mutateConfig } from './algebra.ts';
export {
  addLayer,
  buildImage,
  type ImportOptions,
  importRootfs,
  type LayerSource,
  type NewConfig,
  type RootfsOptions,
} from './build.ts';
export { type InspectedImage, type InspectedManifest, inspectImage } from './inspect.ts';
export {
  type ImageConfig,
  type Index,
  type Manifest,
  parseImageConfig,
  parseIndex,
  parseManifest,
  parseManifestOrIndex,
} from './parse.ts';
export { type ChosenManifest, chooseManifest, contentOf, pin, pinnedFromStore } from './pinned.ts';
export { type PullOptions, pullImage } from './pull.ts';
export { type PushOptions, pushImage } from './push.ts';
