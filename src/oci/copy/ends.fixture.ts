import { join } from 'node:path';
import { createRegistryClient } from '../registry/client/index.ts';
import type { Ends } from './index.ts';

/** Closed by who uses it. */
export const endsClient = createRegistryClient({});

/** Where names lead in tests: below one folder, to one store, and to no Docker daemon. */
export function endsIn(
  directory: string,
  given: Pick<Ends, 'store' | 'signal' | 'emit'>,
  more: Partial<Ends> = {},
): Ends {
  return {
    ...given,
    directory,
    registry: async () => endsClient,
    dockerSocket: async () => join(directory, 'no.sock'),
    scratch: async () => join(directory, 'scratch'),
    ...more,
  };
}
