import { statfsSync } from 'node:fs';
import { diskError } from '../../kernel/system/index.ts';
import { imageFault } from '../../oci/index.ts';
import { engineError } from '../errors.ts';
import type { ContainerRun } from '../port.ts';
import type { RunLayout } from './layout.ts';

/** What the system says where an image has something else in the place of a folder. */
const IN_THE_WAY = new Set(['ENOTDIR', 'ELOOP', 'EISDIR', 'EEXIST', 'ENAMETOOLONG']);

/** What is told where the files, folders and mount points of a container cannot be made. */
export function unprepared(cause: unknown, run: ContainerRun, layout: RunLayout): unknown {
  const { code = '', message } = cause as NodeJS.ErrnoException;
  if (!IN_THE_WAY.has(code)) return noSpace(cause, layout);
  return engineError(
    'ENGINE_START_FAILED',
    `image ${run.image} cannot be made ready for a step: ${message}`,
    {
      hint: 'where steps find /cnab, /etc and their mounts an image may have no files, endless links or links to /, /proc, /sys or /dev; mend it or take another',
      details: { containerId: run.containerId, image: run.image },
      cause,
    },
  );
}

/** Says of a fault of its layers which image it is: a session has several. */
export function faultOf(image: string): (error: unknown) => never {
  return (error) => {
    throw imageFault(`image ${image}`, error);
  };
}

/** A full disk with its place, which the system does not name where a write fails. */
export function noSpace(cause: unknown, layout: RunLayout): unknown {
  return diskError(cause, fuller(layout.control, layout.disk));
}

function fuller(one: string, other: string): string {
  return free(one) <= free(other) ? one : other;
}

function free(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
