import { describe, expect, it } from 'vitest';
import { manifestMediaType } from './manifest.ts';

const IMAGE = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';
const DOCKER = 'application/vnd.docker.distribution.manifest.v2+json';
const LIST = 'application/vnd.docker.distribution.manifest.list.v2+json';

const read = (body: unknown, sentAs?: string): string =>
  manifestMediaType(
    Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
    sentAs,
    'r.test/a:1',
  );

describe('a manifest is what it is called', () => {
  const image = { schemaVersion: 2, config: {}, layers: [] };
  const index = { schemaVersion: 2, manifests: [] };

  it.each([IMAGE, DOCKER])('an image, as %s', (type) => {
    for (const sentAs of [type, ` ${type.toUpperCase()} ; charset=utf-8`])
      expect(read(image, sentAs)).toBe(type);
    expect(read({ ...image, mediaType: type })).toBe(type);
    expect(read({ ...image, mediaType: type }, '')).toBe(type);
    expect(read({ ...image, mediaType: type }, ';')).toBe(type);
    expect(read({ ...image, mediaType: type }, type)).toBe(type);
  });

  it.each([INDEX, LIST])('an index, as %s', (type) => {
    expect(read(index, type)).toBe(type);
    expect(read({ ...index, mediaType: type }, type)).toBe(type);
  });

  it.each<[string, unknown, string | undefined, string]>([
    ['a type that is no text', { ...image, mediaType: null }, IMAGE, 'its mediaType is no string'],
    ['no version', { config: {} }, IMAGE, 'its schemaVersion is not 2'],
    ['another version', { ...image, schemaVersion: '2' }, IMAGE, 'its schemaVersion is not 2'],
    [
      'two types',
      { ...image, mediaType: DOCKER },
      IMAGE,
      `it calls itself "${DOCKER}" but was sent as "${IMAGE}"`,
    ],
    ...(['layers', 'config', 'fsLayers'] as const).map((key): [string, unknown, string, string] => [
      `an index with ${key}`,
      { ...index, [key]: [] },
      INDEX,
      'it is a manifest and an index at once',
    ]),
    [
      'an index of nothing',
      { schemaVersion: 2, manifests: {} },
      INDEX,
      'an index without a list of manifests',
    ],
    ['no config', { schemaVersion: 2, layers: [] }, IMAGE, 'a manifest without config'],
    ['a config that is nothing', { ...image, config: null }, IMAGE, 'a manifest without config'],
    ['a config that is text', { ...image, config: 'x' }, IMAGE, 'a manifest without config'],
    ['layers that are none', { ...image, layers: {} }, IMAGE, 'its layers are no list'],
    ['no type at all', image, undefined, '"nothing" is no media type of a manifest or index'],
    ['another type', image, 'text/plain', '"text/plain" is no media type of a manifest or index'],
    ['a list around it', [image], IMAGE, 'it is no JSON object'],
  ])('and refused with %s', (_, body, sentAs, problem) => {
    expect(() => read(body, sentAs)).toThrow(
      expect.objectContaining({
        code: 'OCI_MANIFEST_INVALID',
        message: `r.test/a:1: the manifest is refused: ${problem}`,
        hint: 'ask who pushed the image',
      }),
    );
  });

  it('may lack layers, or have them empty', () => {
    for (const layers of [undefined, null, []])
      expect(read({ schemaVersion: 2, config: {}, layers }, IMAGE)).toBe(IMAGE);
  });

  it.each<[unknown, string]>([
    [{ schemaVersion: 1, fsLayers: [] }, 'application/json'],
    [image, 'application/vnd.docker.distribution.manifest.v1+prettyjws'],
    [{ schemaVersion: 2, mediaType: 'application/vnd.docker.distribution.manifest.v1+json' }, IMAGE],
  ])('and refused as retired: %j', (body, sentAs) => {
    expect(() => read(body, sentAs)).toThrow(
      expect.objectContaining({
        code: 'OCI_MANIFEST_INVALID',
        message: 'r.test/a:1: the manifest is refused: it has the retired schema 1',
        hint: 'push the image again with a current tool',
      }),
    );
  });
});

describe('what is no manifest', () => {
  const PAGE = 'check the registry address, and whether a proxy or login page answers in its place';
  const TEXT = 'try again, or ask who runs the registry';

  it.each<[string, string | Buffer, string | undefined, string, string]>([
    ['a page', '<html>', undefined, 'a web page', PAGE],
    ['a page after some space', `${' '.repeat(150)}<html>`, 'text/plain', 'a web page', PAGE],
    ['what is sent as a page', 'Log in', 'text/html; charset=utf-8', 'a web page', PAGE],
    ['a page far down', `${' '.repeat(200)}<html>`, 'text/plain', 'not JSON', TEXT],
    ['text with a tag in it', 'a <b>', IMAGE, 'not JSON', TEXT],
    ['nothing', '', IMAGE, 'not JSON', TEXT],
    ['what is no UTF-8', Buffer.from([0x22, 0xff, 0x22]), IMAGE, 'not JSON', TEXT],
  ])('is said to be so: %s', (_, body, sentAs, what, hint) => {
    expect(() => manifestMediaType(Buffer.from(body), sentAs, 'r.test/a:1')).toThrow(
      expect.objectContaining({
        code: 'REGISTRY_ANSWER_INVALID',
        message: `r.test/a:1: the answer is ${what} instead of a manifest`,
        hint,
        cause: expect.any(Error) as Error,
      }),
    );
  });
});
