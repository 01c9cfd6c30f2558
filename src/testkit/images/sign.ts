import type { Descriptor, Digest, Store } from '../../oci/index.ts';
import { digestOf } from '../../oci/names/index.ts';
import { recordingTransfer } from './transfer.ts';

const OCI = 'application/vnd.oci.image.manifest.v1+json';

/** Puts a manifest about an image of the store beside it, and one under a tag of cosign's. */
export async function signImage(
  store: Store,
  repository: string,
  subject: Digest,
): Promise<{ readonly referrer: Digest; readonly signature: Digest }> {
  const put = async (bytes: Buffer, mediaType: string): Promise<Descriptor> => {
    const descriptor = { mediaType, digest: digestOf(bytes), size: bytes.length };
    async function* source(): AsyncGenerator<Uint8Array> {
      yield bytes;
    }
    await store.ingest(descriptor, async () => source(), recordingTransfer());
    return descriptor;
  };
  const empty = await put(Buffer.from('{}'), 'application/vnd.oci.empty.v1+json');
  const about = { mediaType: OCI, digest: subject, size: (await store.readSmall(subject)).length };
  const layer = await put(Buffer.from('signature'), 'application/octet-stream');
  const manifest = { schemaVersion: 2, mediaType: OCI, config: empty, layers: [layer] };
  const referrer = await put(
    Buffer.from(JSON.stringify({ ...manifest, artifactType: 'test/signature', subject: about })),
    OCI,
  );
  const signature = await put(Buffer.from(JSON.stringify(manifest)), OCI);
  await store.tag(`${repository}@${referrer.digest}`, referrer);
  await store.tag(`${repository}:${subject.replace(':', '-')}.sig`, signature);
  return { referrer: referrer.digest, signature: signature.digest };
}
