/** The tar codec by itself, for whoever reads and writes archives that are no layers. Light: no writer, no checks. */
export { type EntryType, type TarEntry, toBytes } from '../entry.ts';
export { readTar } from '../reader.ts';
export { encodeEntry, endOfArchive, padding } from '../writer.ts';
