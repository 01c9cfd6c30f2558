export { ACCESS_LIST, DEFAULT_LIST, dropDefaultList, keepsAcls } from './acl.ts';
export { unshiftXattrs } from './attributes.ts';
export { type CheckedEntry, LayerChecker, type LowerFile, NeedsParents } from './check.ts';
export { type Compression, decompress, emptyVolume, grow, sniffCompression } from './compression.ts';
export { type ByteString, type EntryType, showPath, type TarEntry, type Time, toBytes } from './entry.ts';
export { isCopyable } from './erofs/copyable.ts';
export { NotErofs } from './erofs/errors.ts';
export { ErofsReader, type FoundInode } from './erofs/reader.ts';
export { type ErofsSink, openErofsSink } from './erofs/sink.ts';
export { GnuTarSink, hasGnuTar } from './gnu-tar.ts';
export { DEFAULT_LIMITS, type LayerLimits } from './limits.ts';
export { owned } from './memory.ts';
export { type LayerModel, type ModelFile, type ModelPart, packModel, unpackWithModel } from './model.ts';
export { NodeSink } from './node-sink.ts';
export { openSink } from './open-sink.ts';
export {
  compressLayer,
  normaliseTar,
  type PackedLayer,
  packFiles,
  packFolder,
  type VirtualFile,
} from './pack.ts';
export { PlainSink, plainMode } from './plain-sink.ts';
export { readFileByNode } from './read-file.ts';
export { readTar, TarReader } from './reader.ts';
export type { LayerSink } from './sink.ts';
export { tarEnvironment } from './tar-process.ts';
export { type Unpacked, unpackLayer } from './unpack.ts';
export { encodeEntry, endOfArchive, padding } from './writer.ts';
