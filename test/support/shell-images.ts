import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { TestFile } from '../../src/testkit/images/index.ts';
import type { World } from './world.ts';

export type ImageFiles = Record<string, TestFile>;

/** Programs of the host as files of an image, at `bin/NAME`, with the libraries that they load. */
export function hostPrograms(...paths: readonly string[]): ImageFiles {
  const files: ImageFiles = {};
  for (const path of paths) {
    files[`bin/${path.slice(path.lastIndexOf('/') + 1)}`] = executable(path);
    const printed = execFileSync('ldd', [path], { encoding: 'utf8' });
    for (const [, library] of printed.matchAll(/(?:=> |^\s+)(\/\S+)/gm))
      files[(library as string).slice(1)] = executable(library as string);
  }
  return files;
}

function executable(path: string): TestFile {
  return { content: readFileSync(realpathSync(path)), mode: 0o755 };
}

/** What `sh` is: as in Debian, Alpine, and the distributions whose `sh` is bash. */
export type Sh = 'dash' | 'busybox' | 'bash';

/** An image with dash, bash and busybox's ash, all three as they are on the host. */
export async function shellImage(world: World, sh: Sh, more: ImageFiles = {}): Promise<string> {
  return await world.image(`shells/${sh}:1`, {
    busybox: true,
    files: {
      ...hostPrograms('/bin/dash', '/bin/bash'),
      'bin/sh': { type: 'symlink', linkPath: sh },
      ...more,
    },
  });
}

/** Python with what it needs to start and to read its environment. */
export function pythonFiles(): ImageFiles {
  const program = realpathSync('/usr/bin/python3');
  const version = program.slice(program.lastIndexOf('/') + 1);
  const library = `/usr/lib/${version}`;
  const files = hostPrograms(program);
  files['bin/python3'] = { type: 'symlink', linkPath: version };
  for (const entry of readdirSync(library, { recursive: true, withFileTypes: true })) {
    const folder = relative(library, entry.parentPath);
    if (
      !entry.isFile() ||
      !entry.name.endsWith('.py') ||
      !/^(?:|encodings|collections|importlib)$/.test(folder)
    )
      continue;
    files[join(library, folder, entry.name).slice(1)] = {
      content: readFileSync(join(entry.parentPath, entry.name)),
    };
  }
  return files;
}
