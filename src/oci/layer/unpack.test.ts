import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import { inPieces, rawHeader, type TarFile, tarOf } from '../../testkit/images/index.ts';
import { digestOf } from '../names/index.ts';
import type { TarEntry } from './entry.ts';
import { type LayerSink, type LowerFile, unpackLayer } from './index.ts';
import { DEFAULT_LIMITS } from './limits.ts';

const signal = new AbortController().signal;

/** Writes down what it is told. */
class Notes implements LayerSink {
  readonly calls: string[] = [];

  async put(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void> {
    let body = '';
    for (let part = await next(); part !== undefined; part = await next()) body += part.toString('latin1');
    this.calls.push(`${entry.type} ${entry.path} ${JSON.stringify(body)}`);
  }
  async finish(): Promise<void> {
    this.calls.push('finish');
  }
  async abort(): Promise<void> {
    this.calls.push('abort');
  }
}

class Stamped extends Notes {
  async restamp(entry: TarEntry): Promise<void> {
    this.calls.push(`restamp ${entry.path} ${entry.uid}`);
  }
}

type Options = Partial<Parameters<typeof unpackLayer>[2]>;
async function unpacked(
  bytes: Uint8Array,
  options: Options = {},
  sink: Notes = new Notes(),
): Promise<readonly unknown[]> {
  try {
    const made = await unpackLayer(inPieces(bytes), sink, { map: undefined, signal, ...options });
    return [made, ...sink.calls];
  } catch (error) {
    return [codeFrom(error), (error as Error).message, (error as { hint?: string }).hint, ...sink.calls];
  }
}

describe('a layer is unpacked', () => {
  const files: readonly TarFile[] = [
    { path: 'd', type: 'directory' },
    { path: 'd/f', content: 'hello' },
    { path: 'd/.wh..wh..opq' },
    { path: '.wh.gone', content: 'never written' },
  ];
  const layer = tarOf(files);

  it('entry by entry, and told of', async () => {
    expect(await unpacked(layer)).toEqual([
      { diffId: digestOf(layer), entries: 4, opaque: ['d'] },
      'directory d ""',
      'file d/f "hello"',
      'char gone ""',
      'directory d ""',
      'directory . ""',
      'finish',
    ]);
  });

  it('with the digest of all bytes, those behind the end too', async () => {
    const more = Buffer.concat([layer, Buffer.alloc(3000, 'x')]);
    expect((await unpacked(more))[0]).toMatchObject({ diffId: digestOf(more) });
    expect((await unpacked(more, { diffId: digestOf(more, 'sha512') }))[0]).toMatchObject({
      diffId: digestOf(more, 'sha512'),
    });
  });

  it('and refused at its end where the image declares another', async () => {
    const [code, message, hint, ...calls] = await unpacked(layer, { diffId: digestOf('other') });
    expect([code, message, hint, calls.at(-1)]).toEqual([
      'OCI_LAYER_DIFFID',
      `a layer unpacks to ${digestOf(layer)}, and the image declares ${digestOf('other')}`,
      'the image was built wrongly or is hostile; ask its author',
      'abort',
    ]);
    expect(calls).not.toContain('finish');
  });

  it('and refused before it is read where it is no layer', async () => {
    const type = `application/json;${'x'.repeat(300)}`;
    expect(await unpacked(layer, { mediaType: type })).toEqual([
      'OCI_LAYER_INVALID',
      `"${type.slice(0, 200)}" is not the media type of a layer`,
      'this is an artifact and no image that can run; ask its author',
      'abort',
    ]);
    for (const odd of ['x', ''])
      expect(
        (
          await unpacked(layer, {
            mediaType: `${odd}application/vnd.oci.image.layer.v1.tar${odd === '' ? 'x' : ''}`,
          })
        )[0],
      ).toBe('OCI_LAYER_INVALID');
  });

  it('until it is cancelled', async () => {
    const controller = new AbortController();
    controller.abort();
    expect(await unpacked(layer, { signal: controller.signal })).toEqual([
      'CANCELLED',
      'cancelled while unpacking a layer',
      undefined,
      'abort',
    ]);
  });

  it('and its source is let go where it is refused', async () => {
    let closed = false;
    async function* source(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield Buffer.concat([rawHeader({}), rawHeader({})]);
      } finally {
        closed = true;
      }
    }
    await expect(unpackLayer(source(), new Notes(), { map: undefined, signal })).rejects.toThrow('twice');
    expect(closed).toBe(true);
  });
});

describe('a hard link with other attributes than its file', () => {
  const layer = tarOf([{ path: 'a"' }, { path: 'h', type: 'link', linkPath: 'a"', uid: 9 }]);

  it('is written by a sink that can', async () => {
    expect((await unpacked(layer, {}, new Stamped())).slice(1)).toEqual([
      'file a" ""',
      'link h ""',
      'restamp h 9',
      'directory . ""',
      'finish',
    ]);
  });

  it('and refused by one that cannot', async () => {
    expect(await unpacked(layer)).toEqual([
      'OCI_LAYER_UNSAFE',
      'the layer is refused: "h" is a hard link with other attributes than its file',
      'the image was built wrongly or is hostile; ask its author',
      'file a" ""',
      'link h ""',
      'abort',
    ]);
  });
});

describe('what a layer takes beyond its archive', () => {
  const body = async function* (): AsyncGenerator<Buffer> {
    yield Buffer.from('hel');
    yield Buffer.from('lo');
  };
  const entry: TarEntry = {
    path: 'below',
    type: 'file',
    mode: 0o644,
    uid: 0,
    gid: 0,
    size: 5000,
    mtime: { seconds: 0, nanos: 0 },
    linkPath: '',
    devMajor: 0,
    devMinor: 0,
  };
  const lower = async (): Promise<LowerFile> => ({ path: 'below', entry, body });

  it('comes from the layers below, and counts', async () => {
    const layer = tarOf([{ path: 'h', type: 'link', linkPath: 'below' }]);
    expect((await unpacked(layer, { lower })).slice(1)).toEqual([
      'file h "hello"',
      'link below ""',
      'directory . ""',
      'finish',
    ]);
    const most = layer.length + entry.size;
    const limits = { ...DEFAULT_LIMITS, maxBytes: most - 1 };
    expect((await unpacked(layer, { lower, limits })).slice(0, 2)).toEqual([
      'OCI_LAYER_LIMIT',
      `the layer has more than ${most - 1} bytes when unpacked`,
    ]);
    expect((await unpacked(layer, { lower, limits: { ...limits, maxBytes: most } })).at(-1)).toBe('finish');
  });
});
