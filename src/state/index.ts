import type { ManagedStateStore } from './port.ts';

export { stateError } from './errors.ts';
export type * from './port.ts';

/**
 * Opens the records in a folder, which is made (mode 0700) if it is not there. In one process all stores of a
 * folder share one connection; dispose each.
 *
 * @throws STATE_NETWORK_FS, STATE_PERMISSIONS, STATE_UNREADABLE, STATE_FUTURE, STATE_FOREIGN, STATE_CORRUPT,
 *   STATE_KEY_FILE, STATE_BUSY, DISK_FULL
 */
export async function openState(options: { readonly directory: string }): Promise<ManagedStateStore> {
  const { openSqliteState } = await import('./sqlite/index.ts');
  return openSqliteState(options);
}
