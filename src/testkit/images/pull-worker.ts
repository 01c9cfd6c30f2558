import { setTimeout as delay } from 'node:timers/promises';
import { pullImage } from '../../oci/image/index.ts';
import { openStore } from '../../oci/store/index.ts';
import { storeRegistry } from './store-registry.ts';

// A process of its own that pulls and unpacks one image; tells what it does, one JSON event a line, so that a test
// can kill it at a moment of its choice. Arguments: folder of the source store, of the target, reference, pace in ms.
const [sourceDirectory, targetDirectory, reference, pace] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
];
const source = await openStore({ directory: sourceDirectory });
const target = await openStore({ directory: targetDirectory });
const say = (event: object): void => void process.stdout.write(`${JSON.stringify(event)}\n`);
const registry = storeRegistry(source, {
  beforePart: async (digest, offset) => {
    say({ type: 'part', digest, offset });
    await delay(Number(pace));
  },
});
const transfer = { signal: new AbortController().signal, emit: say };
const platform = { os: 'linux', architecture: 'amd64' };
const image = await pullImage(registry, target, reference, { ...transfer, platform });
say({ type: 'pulled' });
await target.lowers(image, undefined, transfer);
say({ type: 'done', digest: image.digest });
await target[Symbol.asyncDispose]();
await source[Symbol.asyncDispose]();
