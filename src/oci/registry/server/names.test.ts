import { describe, expect, it } from 'vitest';
import { digestOf } from '../../names/index.ts';
import type { StoredImage } from '../../port.ts';
import { entriesOf, pushedReference, repositoriesOf, storeNames } from './names.ts';

const descriptor = { mediaType: 'm', digest: digestOf('a'), size: 1 };
const image = (reference: string): StoredImage => ({ reference, descriptor, sizeBytes: 1, platforms: [] });

describe('storeNames', () => {
  it.each([
    ['alpine', ['localhost/alpine', 'docker.io/library/alpine']],
    ['team/app', ['localhost/team/app', 'docker.io/team/app']],
    ['ghcr.io/a/b', ['localhost/ghcr.io/a/b', 'ghcr.io/a/b']],
    ['localhost/a', ['localhost/localhost/a', 'localhost/a']],
  ])('%s: what was pushed here, then what it means where one writes it', (repository, names) => {
    expect(storeNames(repository)).toEqual(names);
  });

  it('a path that is no reference names what was pushed here alone', () => {
    const hex = 'a'.repeat(64);
    expect(storeNames(hex)).toEqual([`localhost/${hex}`]);
  });
});

describe('pushedReference', () => {
  it('stands under the name of this server', () => {
    expect(pushedReference('a/b', { tag: '1' })).toBe('localhost/a/b:1');
    expect(pushedReference('a', { digest: descriptor.digest })).toBe(`localhost/a@${descriptor.digest}`);
  });
});

describe('entriesOf', () => {
  it('has what the repository shows, and nothing of others or without a name', () => {
    const images = [
      image('docker.io/library/tool:1'),
      image('localhost/tool:2'),
      image('ghcr.io/library/tool:3'),
      image('docker.io/library/tools:4'),
      image('No Reference'),
      image(`localhost/tool@${descriptor.digest}`),
    ];
    expect(entriesOf(images, 'tool').map(({ text }) => text)).toEqual([
      'docker.io/library/tool:1',
      'localhost/tool:2',
      `localhost/tool@${descriptor.digest}`,
    ]);
    expect(entriesOf(images, 'tool')[0]).toEqual({
      reference: { registry: 'docker.io', repository: 'library/tool', tag: '1' },
      text: 'docker.io/library/tool:1',
      descriptor,
    });
  });
});

describe('repositoriesOf', () => {
  it('lists each once and in order, under names that can be asked for', () => {
    const images = [
      image('localhost/zoo:1'),
      image('localhost/zoo:2'),
      image('ghcr.io/a/b:1'),
      image('localhost:5000/port:1'),
      image('No Reference'),
      image('docker.io/library/tool:1'),
      image('localhost/app/one:1'),
    ];
    expect(repositoriesOf(images)).toEqual(['app/one', 'docker.io/library/tool', 'ghcr.io/a/b', 'zoo']);
  });
});
