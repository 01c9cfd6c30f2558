// The OCI library as it is shipped: starting from the sources costs a second of stripping types.
import { join } from 'node:path';

/** Also where this file is bundled into a program below dist/bench. */
const root = join(import.meta.dirname, '../..');

export async function shippedLibrary(): Promise<typeof import('../../src/oci/index.ts')> {
  return (await import(join(root, 'dist/lib/oci/index.js'))) as typeof import('../../src/oci/index.ts');
}
