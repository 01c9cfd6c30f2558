// One archive packed in a process of its own. Arguments: archive, file to write, `gzip` or `zstd`.
import { createReadStream, createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { shippedLibrary } from './library.ts';

const [archive, target, kind] = process.argv.slice(2) as [string, string, 'gzip' | 'zstd'];
const { loadLayers } = await shippedLibrary();
const { compressLayer } = await loadLayers();
const { bytes } = compressLayer(createReadStream(archive, { highWaterMark: 2 ** 20 }), kind);
await pipeline(bytes, createWriteStream(target));
