// One pull in a process of its own, so that its memory can be measured.
// Arguments: store folder, reference, `blobs` or `unpack`.
import { pullImage } from '../../src/oci/image/index.ts';
import { hostPlatform } from '../../src/oci/names/index.ts';
import { createRegistryClient } from '../../src/oci/registry/client/index.ts';
import { openStore } from '../../src/oci/store/index.ts';

const [directory, reference, what] = process.argv.slice(2) as [string, string, 'blobs' | 'unpack'];
const map = { hostBase: 2 ** 30, size: 2 ** 30 };
const platform = hostPlatform({ platform: process.platform, arch: process.arch });
const transfer = { signal: new AbortController().signal, emit: () => {} };
await using store = await openStore({ directory });
await using registry = createRegistryClient({});
const unpack = what === 'unpack' ? { unpack: map } : {};
const image = await pullImage(registry, store, reference, { ...transfer, platform, ...unpack });
if (what === 'unpack') await store.lowers(image, map, transfer);
