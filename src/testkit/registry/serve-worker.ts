import { serveRegistry } from '../../oci/registry/server/index.ts';
import { memoryStore } from './memory-store.ts';

// A built-in registry in a process of its own, so that a test can kill it. Argument: the folder that uploads go to. Says
// its address.
const served = await serveRegistry({ store: memoryStore(process.argv[2] as string), writable: true });
process.stdout.write(`${served.url}\n`);
