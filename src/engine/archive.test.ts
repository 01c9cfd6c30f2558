import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { extract, pack } from 'tar-stream';
import { describe, expect, it } from 'vitest';
import { fc } from '../testkit/property.ts';
import { oneChunk, type PackEntry, packArchive, packFiles, readAll, readArchive } from './archive.ts';

const name = fc
  .string({ minLength: 1, maxLength: 60, unit: fc.constantFrom('a', 'é', ' ', '-', '.', '\n', '😀') })
  .filter((text) => !/^\.+$/.test(text.trim()) && text.trim() !== '');
const path = fc.array(name, { minLength: 1, maxLength: 6 }).map((names) => names.join('/'));

async function* inPieces(bytes: Uint8Array, size: number): AsyncIterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

describe('archives', () => {
  it('are read by tar-stream as they were written', async () => {
    await fc.assert(
      fc.asyncProperty(
        path,
        fc.uint8Array({ maxLength: 2000 }),
        fc.integer({ min: 0, max: 0o7777 }),
        async (file, content, mode) => {
          const found: unknown[] = [];
          const reader = extract();
          reader.on('entry', (header, stream, next) => {
            void readAll(stream as AsyncIterable<Uint8Array>).then((bytes) => {
              found.push([header.name, header.mode, bytes.toString('hex')]);
              next();
            });
          });
          const entry: PackEntry = {
            path: file,
            type: 'file',
            mode,
            sizeBytes: content.length,
            content: oneChunk(content),
          };
          await pipeline(Readable.from(packArchive([entry])), reader);
          expect(found).toEqual([[file, mode, Buffer.from(content).toString('hex')]]);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('of tar-stream are read as they were written, in pieces of any size', async () => {
    await fc.assert(
      fc.asyncProperty(
        path,
        fc.uint8Array({ maxLength: 2000 }),
        fc.integer({ min: 1, max: 700 }),
        async (file, content, piece) => {
          const writer = pack();
          writer.entry({ name: file, mode: 0o640 }, Buffer.from(content));
          writer.entry({ name: `${file}-link`, type: 'symlink', linkname: `../${file}` });
          writer.finalize();
          const bytes = await readAll(writer as AsyncIterable<Uint8Array>);
          const found: unknown[] = [];
          for await (const entry of readArchive(inPieces(bytes, piece))) {
            found.push([
              entry.path,
              entry.type,
              entry.linkTarget,
              (await readAll(entry.content)).toString('hex'),
            ]);
          }
          expect(found).toEqual([
            [file, 'file', '', Buffer.from(content).toString('hex')],
            [`${file}-link`, 'symlink', `../${file}`, ''],
          ]);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('may be read without their contents', async () => {
    const names: string[] = [];
    for await (const entry of readArchive(packFiles({ a: 'x'.repeat(5000), b: 'y', 'c/d': '' })))
      names.push(entry.path);
    expect(names).toEqual(['a', 'b', 'c/d']);
  });

  it.each(['/abs', '../up', 'a/../../up', 'a/..'])(
    'that would leave the root are refused: %s',
    async (bad) => {
      const reading = (async () => {
        for await (const _ of readArchive(packArchive([{ path: bad, type: 'file' }])));
      })();
      await expect(reading).rejects.toMatchObject({ code: 'ENGINE_ARCHIVE_INVALID', exitCode: 47 });
    },
  );

  it('that are cut or changed are refused', async () => {
    const bytes = await readAll(packFiles({ a: 'x'.repeat(5000) }));
    const read = async (broken: Uint8Array): Promise<void> => {
      for await (const entry of readArchive(oneChunk(broken))) await readAll(entry.content);
    };
    await expect(read(bytes.subarray(0, 3000))).rejects.toMatchObject({ code: 'ENGINE_ARCHIVE_INVALID' });
    const flipped = Buffer.from(bytes);
    flipped[3] = 0xff;
    await expect(read(flipped)).rejects.toMatchObject({ code: 'ENGINE_ARCHIVE_INVALID' });
  });
});
