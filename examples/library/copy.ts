import { tmpdir } from 'node:os';
import { type Copied, type Ends, loadCopy, loadRegistryClient, type OciEvent } from 'skycap/oci';

/**
 * Copies an image with all its platforms, and what refers to it, from one registry to another. What the target has
 * is not sent again.
 *
 * usage: node copy.ts FROM TO
 */
export async function copy(from: string, to: string, emit: (event: OciEvent) => void): Promise<Copied> {
  const { copyImage, openSource, openTarget, parseTransport } = await loadCopy();
  const { createRegistryClient } = await loadRegistryClient();

  await using registry = createRegistryClient({});
  const none = async (): Promise<never> => {
    throw new Error('this example copies between registries only');
  };
  const ends: Ends = {
    signal: AbortSignal.timeout(600_000),
    emit,
    directory: process.cwd(),
    registry: async () => registry,
    store: none,
    dockerSocket: none,
    scratch: async () => tmpdir(),
  };
  await using source = await openSource(parseTransport(from, 'docker'), ends);
  await using target = await openTarget(parseTransport(to, 'docker'), ends, { replace: false });
  return await copyImage(source, target, {
    ...ends,
    platforms: [],
    defaultPlatform: { os: 'linux', architecture: 'amd64' },
    referrers: true,
  });
}

if (process.argv[1] === import.meta.filename) {
  const [from = '', to = ''] = process.argv.slice(2);
  const { digest, blobs } = await copy(from, to, (event) => {
    if (event.type === 'blob.copied') console.error(`${event.how} ${event.digest}`);
  });
  console.log(`${digest} copied=${blobs.copied} present=${blobs.present}`);
}
