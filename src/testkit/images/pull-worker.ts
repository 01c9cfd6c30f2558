import { writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { pullImage } from '../../oci/image/index.ts';
import { openStore } from '../../oci/store/index.ts';
import { storeRegistry } from './store-registry.ts';

// A process of its own that pulls and unpacks one image; tells what it does, one JSON event a line, so that a test
// can follow it; it kills itself with -9 once it has said so many lines, or at its end where these are fewer.
// Arguments: folder of the source store, of the target, reference, pace in ms, lines (0: it lives).
const [sourceDirectory, targetDirectory, reference, pace, lines] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
];
const die = (): void => void process.kill(process.pid, 'SIGKILL');
let said = 0;
const source = await openStore({ directory: sourceDirectory });
const target = await openStore({ directory: targetDirectory });
const say = (event: object): void => {
  writeSync(1, `${JSON.stringify(event)}\n`);
  said += 1;
  if (said === Number(lines)) die();
};
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
if (Number(lines) > 0) die();
await target[Symbol.asyncDispose]();
await source[Symbol.asyncDispose]();
