// One pull with unpacking, in a process of its own so that its memory can be measured.
// Arguments: store folder, reference.

import { pullImage } from '../../src/oci/image/index.ts';
import { hostPlatform } from '../../src/oci/names/index.ts';
import { createRegistryClient } from '../../src/oci/registry/client/index.ts';
import { openStore } from '../../src/oci/store/index.ts';

const [directory, reference] = process.argv.slice(2) as [string, string];
const map = { hostBase: 2 ** 30, size: 2 ** 30 };
const platform = hostPlatform({ platform: process.platform, arch: process.arch });
const transfer = { signal: new AbortController().signal, emit: () => {} };
const store = await openStore({ directory });
const registry = createRegistryClient({});
const image = await pullImage(registry, store, reference, { ...transfer, platform, unpack: map });
await store.lowers(image, map, transfer);
await registry[Symbol.asyncDispose]();
await store[Symbol.asyncDispose]();
