import { describe, expect, it } from 'vitest';
import { codeOf, imageOf, made, merged } from '../../testkit/images/index.ts';
import { fc } from '../../testkit/property.ts';
import { digestOf } from '../names/index.ts';
import type { Platform } from '../types.ts';
import {
  annotate,
  annotateIndex,
  appendLayers,
  checkKeep,
  decodeImage,
  emptyIndex,
  encodeImage,
  encodeIndex,
  indexAdd,
  indexFilter,
  indexRemove,
  layersOf,
  squash,
  withEnv,
  withRunConfig,
} from './index.ts';

const amd: Platform = { os: 'linux', architecture: 'amd64' };

describe('images as values', () => {
  it('appends, and keeps what it does not know', async () => {
    const [one, two] = [await made([{ path: 'f' }]), await made([{ path: 'g' }])];
    const value = appendLayers(imageOf([one.layer]), [two.layer]);
    expect(layersOf(value)).toEqual([one.layer, two.layer]);
    expect(value.config.raw).toMatchObject({
      'x-kept': { a: 1 },
      history: [{}, { created: '2020-01-01T00:00:00Z' }],
    });
    expect(value.document).toMatchObject({ 'x-unknown': true, annotations: { by: 'someone' } });
    const { manifest, config } = encodeImage(value);
    expect(encodeImage(decodeImage(manifest.bytes, config.bytes)).manifest.descriptor).toEqual(
      manifest.descriptor,
    );
  });

  it('does not make up a history where there is none', async () => {
    const [one, two] = [await made([{ path: 'f' }]), await made([{ path: 'g' }])];
    expect(
      appendLayers(imageOf([one.layer], { history: undefined }), [two.layer]).config.raw.history,
    ).toBeUndefined();
  });

  it('changes settings: what is left out stays, empty removes, an entrypoint drops the cmd', () => {
    const image = imageOf([]);
    expect(withRunConfig(image, { user: '7' }).config.raw.config).toEqual({
      Env: ['PATH=/bin'],
      Cmd: ['sh'],
      'x-odd': 1,
      User: '7',
    });
    expect(withRunConfig(image, { entrypoint: ['/x'] }).config.run).toMatchObject({
      entrypoint: ['/x'],
      cmd: [],
    });
    expect(withRunConfig(image, { env: [] }).config.raw.config).not.toHaveProperty('Env');
    expect(withEnv(['A=1', 'B=2'], { B: '3', C: '4' })).toEqual(['A=1', 'B=3', 'C=4']);
  });

  it('annotates, and takes annotations away again', () => {
    const image = imageOf([]);
    const more = annotate(image, { set: { k: 'v' } });
    expect(more.manifest.annotations).toEqual({ by: 'someone', k: 'v' });
    expect(encodeImage(annotate(more, { remove: ['k'] })).manifest.descriptor.digest).toBe(
      encodeImage(annotate(image, {})).manifest.descriptor.digest,
    );
    expect(annotate(image, { remove: ['by'] }).document).not.toHaveProperty('annotations');
  });

  it('squashes the history with the layers, and refuses to keep what is not there', async () => {
    const layers = await Promise.all(['a', 'b', 'c'].map((leaf) => made([{ path: leaf }])));
    const image = imageOf(layers.map(({ layer }) => layer));
    const one = await merged(layers.slice(1), true);
    const value = squash(image, 1, one.layer);
    expect(layersOf(value)).toEqual([layers[0]?.layer, one.layer]);
    expect(value.config.raw.history).toMatchObject([{ created_by: 'step 1' }, { comment: 'step 2\nstep 3' }]);
    expect(codeOf(() => checkKeep(image, 3))).toBe('OCI_EDIT_INVALID');
    expect(codeOf(() => checkKeep(image, -1))).toBe('OCI_EDIT_INVALID');
  });
});

describe('indexes as values', () => {
  const child = (text: string, platform: string) => {
    const [os = '', architecture = '', variant] = platform.split('/');
    return {
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      digest: digestOf(text),
      size: text.length,
      platform: { os, architecture, ...(variant === undefined ? {} : { variant }) },
    };
  };
  const platforms = ['linux/amd64', 'linux/arm64', 'linux/arm/v7', 'linux/arm/v6', 'windows/amd64'];

  it('adding and removing are each other’s opposite, in any order', () => {
    fc.assert(
      fc.property(fc.shuffledSubarray(platforms, { minLength: 1 }), fc.boolean(), (some, byDigest) => {
        const [last = '', ...others] = some;
        const before = others.reduce((value, name) => indexAdd(value, child(name, name)), emptyIndex());
        const added = indexAdd(before, child(last, last));
        const { digest, platform } = child(last, last);
        const after = indexRemove(added, byDigest ? { digest } : { platform });
        expect(encodeIndex(after).descriptor.digest).toBe(encodeIndex(before).descriptor.digest);
      }),
    );
  });

  it('filtering is removing all the others', () => {
    fc.assert(
      fc.property(fc.shuffledSubarray(platforms, { minLength: 1 }), (kept) => {
        const all = platforms.reduce((value, name) => indexAdd(value, child(name, name)), emptyIndex());
        const filtered = indexFilter(
          all,
          kept.map((name) => child(name, name).platform),
        );
        const removed = platforms
          .filter((name) => !kept.includes(name))
          .reduce((value, name) => indexRemove(value, { digest: child(name, name).digest }), all);
        expect(encodeIndex(filtered).descriptor.digest).toBe(encodeIndex(removed).descriptor.digest);
      }),
    );
  });

  it('takes attestations along with what they are about', () => {
    const image = child('i', 'linux/amd64');
    const attestation = {
      ...child('att', 'unknown/unknown'),
      annotations: {
        'vnd.docker.reference.digest': image.digest,
        'vnd.docker.reference.type': 'attestation-manifest',
      },
    };
    const all = [image, attestation, child('o', 'linux/arm64')].reduce(indexAdd, emptyIndex());
    expect(indexFilter(all, [amd]).index.manifests.map(({ digest }) => digest)).toEqual([
      image.digest,
      attestation.digest,
    ]);
    expect(indexRemove(all, { platform: amd }).index.manifests).toHaveLength(1);
  });

  it('refuses two images for one platform, one manifest twice, and what is not there', () => {
    const one = indexAdd(emptyIndex(), child('x', 'linux/arm64/v8'));
    expect(codeOf(() => indexAdd(one, child('y', 'linux/arm64')))).toBe('OCI_EDIT_INVALID');
    expect(codeOf(() => indexAdd(one, child('x', 'linux/amd64')))).toBe('OCI_EDIT_INVALID');
    expect(codeOf(() => indexRemove(one, { platform: amd }))).toBe('OCI_EDIT_INVALID');
    expect(codeOf(() => indexFilter(one, [amd]))).toBe('OCI_PLATFORM_MISSING');
    expect(annotateIndex(one, { set: { a: 'b' } }).index.annotations).toEqual({ a: 'b' });
  });
});
