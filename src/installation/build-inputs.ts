import { readFile } from 'node:fs/promises';
import { join, resolve, sep } from 'node:path';
import { type BuildInputs, baseImages, imagesError } from '../images/index.ts';
import { createDigester, digestOf } from '../oci/names/index.ts';
import { bundleArchive, listBundleFiles } from './bundle-files.ts';

/** Digests of what `build:` and `bake:` would read, below the bundle's folder. @throws BUILD_CONTEXT */
export function buildInputs(folder: string): BuildInputs {
  return {
    async build(source) {
      const context = inside(folder, source.context);
      const dockerfilePath = join(context, source.dockerfile ?? 'Dockerfile');
      const dockerfile = await read(dockerfilePath);
      const digester = createDigester();
      try {
        const files = (await listBundleFiles(context)).map((file) => ({ ...file, mtimeMs: 0 }));
        for await (const chunk of bundleArchive(context, files)) digester.update(chunk);
      } catch (cause) {
        throw unreadable(context, cause);
      }
      return {
        context: digester.digest(),
        dockerfile: digestOf(dockerfile),
        bases: baseImages(dockerfile.toString('utf8'), source.args),
      };
    },
    async file(path) {
      return digestOf(await read(inside(folder, path)));
    },
  };
}

function inside(folder: string, path: string): string {
  const full = resolve(folder, path);
  if (full === resolve(folder) || full.startsWith(resolve(folder) + sep)) return full;
  throw imagesError('BUILD_CONTEXT', `${path} leads out of the bundle's folder`, {
    hint: 'keep what an image is built from inside the bundle',
  });
}

async function read(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

function unreadable(path: string, cause: unknown): Error {
  return imagesError(
    'BUILD_CONTEXT',
    `${path} cannot be read: ${(cause as NodeJS.ErrnoException).code ?? 'unknown reason'}`,
    {
      hint: 'correct the path in `build:` or `bake:`',
      place: { file: path },
      cause,
    },
  );
}
