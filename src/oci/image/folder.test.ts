import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { made } from '../../testkit/images/index.ts';
import { unpackImage } from './folder.ts';

const { signal } = new AbortController();
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-folder-'));
});
afterEach(() => rm(directory, { recursive: true }));

const unpack = async (folder: string): Promise<unknown> => {
  const { input } = await made([{ path: 'a', content: 'x' }]);
  return await unpackImage([input], folder, { owners: 'user', signal });
};

it('an image is unpacked into an empty folder, and into one that is not there yet', async () => {
  const folder = join(directory, 'new');
  for (const path of [directory, folder]) {
    await unpack(path);
    expect(await readFile(join(path, 'a'), 'utf8')).toBe('x');
  }
  expect(await readdir(folder)).toEqual(['a']);
});

it('a folder that cannot be made is named', async () => {
  const folder = join(directory, 'missing', 'new');
  await expect(unpack(folder)).rejects.toMatchObject({
    code: 'OCI_LAYER_WRITE',
    message: `${folder} could not be made (ENOENT)`,
  });
});
