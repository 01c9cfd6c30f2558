import { readFile } from 'node:fs/promises';
import type { PinnedImage, Store } from '../../oci/index.ts';
import { makeImage } from '../../testkit/images/index.ts';
import type { ContractImage } from './fixture.ts';

/** The suite's images, made in a store. */
export async function contractImages(store: Store): Promise<Record<ContractImage, PinnedImage>> {
  return {
    shell: await makeImage(store, {
      reference: 'localhost/contract/shell:1',
      busybox: true,
      files: { 'cnab/app/shipped/hello': 'from the image\n' },
    }),
    scratch: await makeImage(store, {
      reference: 'localhost/contract/scratch:1',
      files: { busybox: { content: await readFile('/bin/busybox'), mode: 0o755 } },
    }),
  };
}
