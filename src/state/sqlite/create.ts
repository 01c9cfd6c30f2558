import { closeSync, constants, fsyncSync, linkSync, openSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { stateError } from '../errors.ts';
import { asStateError } from './database.ts';
import { asFileError, fileErrorCode, partialName, syncFolder } from './files.ts';
import { APPLICATION_ID } from './migrations.ts';

/**
 * Makes the database where there is none: ours by its header, without tables, and private, as SQLite gives its other
 * files the mode of this one. It comes to its name whole, so that an empty file is never one that was just begun but
 * one that has lost what it held.
 *
 * @throws STATE_CORRUPT for an empty file, STATE_PERMISSIONS, DISK_FULL
 */
export function ensureDatabase(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) {
    create(path);
    return;
  }
  if (!found.isFile() || found.size > 0) return;
  throw stateError('STATE_CORRUPT', `the state database ${path} is damaged: the file is empty`, {
    hint: 'restore it from a backup; if there is none, remove the file to begin anew',
    details: { path },
  });
}

function create(path: string): void {
  const partial = partialName(path);
  try {
    closeSync(openSync(partial, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600));
    begin(partial);
    // Whoever was first has made the same.
    linkSync(partial, path);
    syncFolder(dirname(path));
  } catch (error) {
    const code = fileErrorCode(error);
    if (code === 'EEXIST') return;
    if (code !== 'EACCES' && code !== 'EROFS') throw asFileError(error, path);
    throw stateError('STATE_PERMISSIONS', `the state database ${path} cannot be made`, {
      hint: 'check owner and permissions of its folder, or set `state.directory` to another one',
      details: { path },
      cause: error,
    });
  } finally {
    rmSync(partial, { force: true });
  }
}

function begin(partial: string): void {
  try {
    const connection = new DatabaseSync(partial);
    try {
      // Nobody else sees the file yet: no journal to leave beside it.
      connection.exec(`PRAGMA journal_mode = OFF; PRAGMA application_id = ${APPLICATION_ID}`);
    } finally {
      connection.close();
    }
  } catch (error) {
    throw asStateError(error, partial);
  }
  const handle = openSync(partial, constants.O_RDONLY);
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
