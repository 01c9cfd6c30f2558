// The OCI library as it is shipped: starting from the sources costs a second of stripping types.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

export async function shippedLibrary(): Promise<typeof import('../../src/oci/index.ts')> {
  return (await import(join(root, 'dist/lib/oci/index.js'))) as typeof import('../../src/oci/index.ts');
}

/** Run it once before what imports the library. */
export function buildLibrary(): void {
  execFileSync(process.execPath, [join(root, 'scripts/build.ts'), '--if-stale'], { stdio: 'inherit' });
}
