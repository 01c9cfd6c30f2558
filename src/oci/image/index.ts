export type { VirtualFile } from '../layer/index.ts';
export {
  appendLayer,
  buildIndex,
  type ChangeOptions,
  indexEntry,
  mutateConfig,
  readImageValue,
  writeImageValue,
  writeIndexValue,
} from './algebra.ts';
export {
  addLayer,
  type BuiltLayer,
  buildImage,
  type ImportOptions,
  importRootfs,
  type LayerSource,
  type NewConfig,
  type RootfsOptions,
} from './build.ts';
export {
  type AnnotationEdit,
  annotate,
  appendLayers,
  checkKeep,
  squash,
  withEnv,
  withRunConfig,
} from './edit.ts';
export { type DiffOptions, diffTrees, type FileAspect, type FileChange } from './file-diff.ts';
export {
  type FileNode,
  type FileTree,
  type LayerInput,
  type ReadTreeOptions,
  readTree,
  shownPath,
} from './file-tree.ts';
export { changedLayer, type FolderOptions, type FolderOwners, unpackImage } from './folder.ts';
export {
  annotateIndex,
  decodeIndex,
  emptyIndex,
  encodeIndex,
  type IndexPick,
  type IndexValue,
  indexAdd,
  indexFilter,
  indexRemove,
} from './index-edit.ts';
export { type InspectedImage, type InspectedManifest, inspectImage } from './inspect.ts';
export { isIndex } from './media-types.ts';
export { type MergeOptions, mergeLayers } from './merge.ts';
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
export {
  baseAnnotations,
  baseConflicts,
  baseSplit,
  type NewBase,
  type OldBase,
  type RebaseOptions,
  type RebaseProblem,
  rebase,
  rebaseProblems,
} from './rebase.ts';
export {
  decodeImage,
  type EncodedBlob,
  encodeImage,
  type ImageLayer,
  type ImageValue,
  layersOf,
} from './value.ts';
