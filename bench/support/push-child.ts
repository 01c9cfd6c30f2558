// One push in a process of its own. Arguments: store folder, reference in the store, reference at the registry.
import { pushImage } from '../../src/oci/image/index.ts';
import { createRegistryClient } from '../../src/oci/registry/client/index.ts';
import { openStore } from '../../src/oci/store/index.ts';

const [directory, reference, target] = process.argv.slice(2) as [string, string, string];
await using store = await openStore({ directory });
await using registry = createRegistryClient({});
await pushImage(registry, store, reference, {
  target,
  signal: new AbortController().signal,
  emit: () => {},
});
