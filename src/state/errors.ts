import { errorTable } from '../kernel/index.ts';

/** The errors of this room, exit codes 60 to 69. A full disk is the kernel's DISK_FULL (62). */
export const stateError = errorTable({
  STATE_NETWORK_FS: {
    exit: 60,
    summary: 'the state directory is on a network file system, where locks do not hold',
  },
  STATE_PERMISSIONS: { exit: 60, summary: 'the state directory or a file in it cannot be used by this user' },
  STATE_UNREADABLE: { exit: 60, summary: 'the state database cannot be opened, read or written' },
  STATE_LOCKED: { exit: 61, summary: 'another action holds the lock of the installation' },
  STATE_FUTURE: { exit: 63, summary: 'the state database was written by a newer version' },
  STATE_FOREIGN: { exit: 64, summary: 'the state database is a file of another program' },
  STATE_CORRUPT: { exit: 64, summary: 'the state database or a file of saved state is damaged' },
  STATE_KEY_FILE: { exit: 65, summary: 'the master key file cannot be read or is open to others' },
  STATE_KEY_LOST: { exit: 65, summary: 'a value was encrypted under a key that is gone' },
  STATE_BUSY: { exit: 66, summary: 'other processes kept the state database busy for too long' },
  STATE_NOT_FOUND: { exit: 67, summary: 'no such record' },
  STATE_CONFLICT: { exit: 68, summary: 'a record of that name exists with another id' },
  STATE_TOO_LARGE: { exit: 69, summary: 'a value is larger than the state database takes' },
});
