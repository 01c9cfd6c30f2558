export { scanTree } from './disk.ts';
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
