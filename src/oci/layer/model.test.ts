import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isSkycapError } from '../../kernel/index.ts';
import { codeFrom } from '../../testkit/coded.ts';
import { inPieces, tarOf } from '../../testkit/images/index.ts';
import { oracleCases, oracleRegistry } from '../../testkit/layers/index.ts';
import { digestOf, parseReference } from '../names/index.ts';
import { decompress, type LayerModel, packModel, readTar, unpackWithModel } from './index.ts';
import { DEFAULT_LIMITS, type LayerLimits } from './limits.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-model-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

const signal = new AbortController().signal;
const options = { map: undefined, signal };

async function joined(parts: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const part of parts) all.push(part);
  return Buffer.concat(all);
}

async function unpack(bytes: Uint8Array, name = 'out'): Promise<LayerModel> {
  const folder = join(directory, name);
  await mkdir(folder);
  return (await unpackWithModel(() => inPieces(bytes, 3000), folder, options)).model;
}

describe('a folder and a model', () => {
  const layer = tarOf([
    { path: 'd', type: 'directory', mode: 0o500, uid: 7 },
    {
      path: 'd/f',
      content: 'hello',
      mode: 0o4000,
      uid: 3_000_000,
      xattrs: new Map([['trusted.x', Buffer.from('y')]]),
    },
    { path: 'hard', type: 'link', linkPath: 'd/f' },
    { path: 'null', type: 'char', devMajor: 1, devMinor: 3 },
    { path: 'null2', type: 'link', linkPath: 'null' },
    { path: 'pipe', type: 'fifo' },
    { path: 'd/.wh.gone', content: 'kept' },
    { path: 'd/.wh..wh..opq' },
    { path: 'big', content: Buffer.alloc(100_000, 'x'), mtime: { seconds: -5, nanos: 1 } },
  ]);

  it('L28 give the very layer back', async () => {
    const model = await unpack(layer);
    expect(await readFile(join(directory, 'out/hard'), 'utf8')).toBe('hello');
    expect((await stat(join(directory, 'out/d'))).mode & 0o777).toBe(0o700);
    await expect(stat(join(directory, 'out/null'))).rejects.toThrow('ENOENT');
    expect((await joined(packModel(join(directory, 'out'), model))).equals(layer)).toBe(true);
  });

  it('L28 of a layer that its config names by sha512 do so too', async () => {
    const folder = join(directory, 'out');
    await mkdir(folder);
    const diffId = digestOf(layer, 'sha512');
    const blob = (): AsyncIterable<Uint8Array> => inPieces(layer, 3000);
    const unpacked = await unpackWithModel(blob, folder, { ...options, diffId });
    expect(unpacked.diffId).toBe(diffId);
    expect(digestOf(await joined(packModel(folder, unpacked.model)), 'sha512')).toBe(diffId);
    await mkdir(join(directory, 'other'));
    const wrong = { ...options, diffId: digestOf('other', 'sha512') };
    await expect(unpackWithModel(blob, join(directory, 'other'), wrong)).rejects.toMatchObject({
      code: 'OCI_LAYER_DIFFID',
    });
  });

  it('with what was changed and removed', async () => {
    const model = await unpack(layer);
    await writeFile(join(directory, 'out/d/f'), 'something longer');
    await rm(join(directory, 'out/big'));
    const packed = await joined(packModel(join(directory, 'out'), model));
    const found: string[] = [];
    for await (const { entry, body } of readTar(inPieces(packed)))
      found.push(`${entry.path} ${entry.uid} ${(await joined(body)).toString()}`);
    expect(found).toContain('d/f 3000000 something longer');
    expect(found.filter((line) => line.startsWith('big'))).toEqual([]);
    expect(found).toHaveLength(8);
  });
});

describe('a folder and a model are refused', () => {
  const layer = tarOf([
    { path: 'd/f', content: 'hello' },
    { path: '.wh.gone', content: 'x'.repeat(100) },
  ]);

  it('where the layer is another when it is read again', async () => {
    const blobs = [layer, tarOf([{ path: 'd/f', content: 'other' }])];
    const work = unpackWithModel(() => inPieces(blobs.shift() ?? layer), directory, options);
    await expect(work).rejects.toMatchObject({
      code: 'OCI_LAYER_DIFFID',
      message: 'a layer was not the same when it was read again',
      hint: 'run the same command again; if it stays, check the disk',
    });
  });

  it('where what belongs to no file would fill the memory', async () => {
    const limits = (maxMetaBytes: number): LayerLimits => ({ ...DEFAULT_LIMITS, maxMetaBytes });
    const unpacked = async (bytes: Uint8Array, name: string, maxMetaBytes = 1 << 20): Promise<unknown> => {
      await mkdir(join(directory, name));
      return await unpackWithModel(() => inPieces(bytes, 1 << 20), join(directory, name), {
        ...options,
        limits: limits(maxMetaBytes),
      }).then(
        () => 'done',
        (error: Error) => [codeFrom(error), error.message],
      );
    };
    expect(await unpacked(layer, 'a', 100)).toBe('done');
    expect(await unpacked(layer, 'b', 99)).toEqual([
      'OCI_LAYER_LIMIT',
      'the layer has a whiteout of 100 bytes',
    ]);
    const trailing = (bytes: number): Buffer => Buffer.concat([tarOf([]), Buffer.alloc(bytes - 1024)]);
    expect(await unpacked(trailing(2 ** 24), 'c')).toBe('done');
    expect(await unpacked(trailing(2 ** 24 + 1), 'd')).toEqual([
      'OCI_LAYER_LIMIT',
      'the layer has 16777216 bytes that belong to no file',
    ]);
  });

  it('where the folder cannot be read', async () => {
    const model = await unpack(layer);
    await rm(join(directory, 'out/d'), { recursive: true });
    await writeFile(join(directory, 'out/d'), 'a file');
    const error = await joined(packModel(join(directory, 'out'), model)).catch((one: unknown) => one);
    expect(error).toMatchObject({
      code: 'OCI_LAYER_WRITE',
      message: expect.stringMatching(/^an unpacked layer cannot be read: ENOTDIR/),
      cause: { code: 'ENOTDIR' },
    });
  });
});

// Each layer that stands alone and is not refused; those that are large add nothing.
it('L28 every recorded layer comes out of folder and model as it was', async () => {
  let count = 0;
  const reference = parseReference('localhost/oracle:1');
  for (const one of oracleCases()) {
    if (['gzip-bomb', 'entries-50000', 'depth-500-entries'].includes(one.id)) continue;
    const { registry } = oracleRegistry(one);
    const { bytes } = await registry.getManifest(reference, { signal, emit: () => {} });
    const { layers } = JSON.parse(Buffer.from(bytes).toString()) as { layers: { digest: string }[] };
    for (const [index, layer] of layers.entries()) {
      const blob = await joined(
        await registry.getBlob(reference, layer as never, 0, { signal, emit: () => {} }),
      );
      const name = `${one.id}-${index}`;
      let model: LayerModel;
      try {
        model = await unpack(blob, name);
      } catch (error) {
        if (isSkycapError(error) || (error as Error).name === 'NeedsParents') continue;
        throw error;
      }
      const tar = await joined(decompress(inPieces(blob)));
      expect(digestOf(await joined(packModel(join(directory, name), model))), name).toBe(digestOf(tar));
      count++;
    }
  }
  expect(count).toBeGreaterThan(200);
});
