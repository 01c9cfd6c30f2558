import { createHash, randomUUID } from 'node:crypto';
import {
  chmodSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { engineError } from '../errors.ts';
import { initBinaries, mountBinaries } from './init/binary.ts';

export interface Programs {
  /** First process of every container; is mounted into it. */
  readonly init: string;
  readonly mount: string;
}

/** Our own small programs, in a folder where programs may be executed. @throws ENGINE_SESSION_FAILED */
export function preparePrograms(folder: string): Programs {
  const init = initBinaries[process.arch];
  const mount = mountBinaries[process.arch];
  if (init === undefined || mount === undefined) {
    throw engineError('ENGINE_SESSION_FAILED', `there is no init program for ${process.arch}`, {
      hint: 'use the docker engine on this architecture',
    });
  }
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  return {
    init: keepProgram(folder, Buffer.from(init, 'base64')),
    mount: keepProgram(folder, Buffer.from(mount, 'base64')),
  };
}

/**
 * A program under the name of its content, so that no version of Skycap replaces another's. One that is there stays
 * the file that it is: while the runtime mounts it, another process may be starting, and a container whose file was
 * replaced at that moment does not start.
 */
function keepProgram(folder: string, program: Buffer): string {
  const path = join(folder, `.${createHash('sha256').update(program).digest('hex').slice(0, 32)}`);
  if (!isThere(path, program)) putProgram(path, program);
  return path;
}

export function putProgram(path: string, program: Buffer): void {
  // Never a name that a killed process may have left as a link to the program itself.
  const fresh = `${path}.${randomUUID()}`;
  writeFileSync(fresh, program, { mode: 0o755, flag: 'wx' });
  chmodSync(fresh, 0o755);
  try {
    linkSync(fresh, path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
    // Another process was faster, or what is there is damaged.
    if (!isThere(path, program)) renameSync(fresh, path);
  } finally {
    rmSync(fresh, { force: true });
  }
}

function isThere(path: string, program: Buffer): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found?.isFile() === true && (found.mode & 0o777) === 0o755 && program.equals(readFileSync(path));
}
