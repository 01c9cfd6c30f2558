import { inflateSync } from 'node:zlib';
import { hostileLayers, oracleCases } from '../../../src/testkit/layers/index.ts';

/** The layers that other tools were compared on, and the hostile ones: tars, and what is compressed beyond that. */
export function layerSeeds(): readonly Buffer[] {
  const recorded = oracleCases()
    .flatMap(({ layers }) => layers.map(({ deflated }) => deflated ?? ''))
    .map((text) => (text === '' ? Buffer.alloc(0) : inflateSync(Buffer.from(text, 'base64'))));
  return [...hostileLayers('/canary').flatMap(({ layers }) => layers), ...recorded].flatMap((bytes) =>
    bytes.length > 64 * 1024 ? [] : [Buffer.from(bytes)],
  );
}
