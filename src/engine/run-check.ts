import { engineError } from './errors.ts';
import type { ContainerRun } from './port.ts';

/** The kernel's MAX_ARG_STRLEN: 32 pages, the ending NUL included (execve(2), "Limits on size of arguments"). */
const MAX_STRING_BYTES = 131_072;
/** Folders that a volume may not cover: ours, or where programs and accounts come from. */
const KEPT_FOLDERS = ['/cnab', '/etc', '/usr', '/bin', '/sbin', '/lib', '/lib64', '/proc', '/sys', '/dev'];

/**
 * What every engine refuses alike, before anything is started.
 *
 * @throws ENGINE_RUN_INVALID, ENGINE_ENV_TOO_LONG, ENGINE_VOLUME_REFUSED
 */
export function checkRun(run: ContainerRun): void {
  if (!/^[a-z0-9-]{1,120}$/.test(run.containerId)) {
    throw engineError('ENGINE_RUN_INVALID', `${JSON.stringify(run.containerId)} is no container id`);
  }
  if (run.argv.length === 0 || run.argv[0] === '') {
    throw engineError('ENGINE_RUN_INVALID', `container ${run.containerId} has no command`, {
      hint: 'give the step a command, or use an image with an entrypoint',
    });
  }
  for (const [index, argument] of run.argv.entries()) {
    if (argument.includes('\0')) throw nul(`argument ${index}`);
    if (Buffer.byteLength(argument) >= MAX_STRING_BYTES)
      throw tooLong(`argument ${index}`, Buffer.byteLength(argument));
  }
  for (const [name, value] of Object.entries(run.env)) {
    if (name === '' || name.includes('=') || name.includes('\0')) {
      throw engineError(
        'ENGINE_RUN_INVALID',
        `${JSON.stringify(name)} cannot be the name of an environment variable`,
      );
    }
    if (value.includes('\0')) throw nul(`environment variable ${name}`);
    const bytes = Buffer.byteLength(name) + 1 + Buffer.byteLength(value);
    if (bytes >= MAX_STRING_BYTES) throw tooLong(`environment variable ${name}`, bytes);
  }
  if (!run.workingDir.startsWith('/') || run.workingDir.includes('\0')) {
    throw engineError(
      'ENGINE_RUN_INVALID',
      `the working directory ${JSON.stringify(run.workingDir)} is not absolute`,
    );
  }
  checkPaths(run, 'the folder of outputs', [run.outputsDir]);
  checkPaths(
    run,
    'the file',
    run.files.map((file) => file.path),
  );
  checkPaths(run, 'the output', run.collectPaths);
  for (const volume of run.volumes) {
    checkVolumePlace(volume, volume.path);
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(volume.name)) {
      throw engineError('ENGINE_VOLUME_REFUSED', `${JSON.stringify(volume.name)} is no name for a volume`);
    }
  }
}

/**
 * `place` is the volume's path or, once the image is at hand, where the image's links lead it.
 *
 * @throws ENGINE_VOLUME_REFUSED
 */
export function checkVolumePlace(volume: ContainerRun['volumes'][number], place: string): void {
  if (isCleanAbsolute(place) && place !== '/' && !KEPT_FOLDERS.some((kept) => isBelow(place, kept))) return;
  const through = place === volume.path ? '' : `, which is ${place} in the image`;
  throw engineError(
    'ENGINE_VOLUME_REFUSED',
    `volume ${volume.name} may not be mounted at ${volume.path}${through}`,
    { hint: 'mount it below a folder of its own, such as /var/cache/NAME' },
  );
}

export function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`);
}

function isCleanAbsolute(path: string): boolean {
  if (path === '/') return true;
  return (
    path.startsWith('/') &&
    !path.includes('\0') &&
    path
      .slice(1)
      .split('/')
      .every((part) => !['', '.', '..'].includes(part))
  );
}

function checkPaths(run: ContainerRun, what: string, paths: readonly string[]): void {
  const wrong = paths.find((path) => !isCleanAbsolute(path));
  if (wrong === undefined) return;
  throw engineError(
    'ENGINE_RUN_INVALID',
    `container ${run.containerId}: ${what} at ${JSON.stringify(wrong)} is at no plain absolute path`,
    {
      hint: 'correct the `path` of the parameter, credential, output or state: no `.`, no `..`, no empty part',
      details: { containerId: run.containerId, path: wrong },
    },
  );
}

function nul(what: string): Error {
  return engineError('ENGINE_RUN_INVALID', `${what} contains a NUL byte, which no program can be given`);
}

function tooLong(what: string, bytes: number): Error {
  return engineError(
    'ENGINE_ENV_TOO_LONG',
    `${what} has ${bytes} bytes; the kernel takes at most ${MAX_STRING_BYTES - 1}`,
    {
      hint: 'hand it over as a file: give the parameter or credential a `path`',
    },
  );
}
