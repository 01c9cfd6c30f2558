export {
  type CheckedOptions,
  checkedBy,
  directory,
  file,
  hardLink,
  implied,
  linkAs,
  symlink,
} from './checked.ts';
export { scanTree } from './disk.ts';
export { type Grown, grownTree, plainEntry } from './grown-tree.ts';
export { type Hostile, hostileLayers, pax as paxHeader } from './hostile.ts';
export { linesOf, MergedTree, ModelSink, treeDigest } from './model.ts';
export {
  bytesOf,
  type OracleCase,
  type OracleEntry,
  oracleCases,
  oracleRegistry,
  TOOLS,
  type Tool,
  treeOf,
} from './oracle.ts';
