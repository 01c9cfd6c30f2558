import { expect, it } from 'vitest';
import { containerPath } from './index.ts';

it('a path of a bundle is absolute and plain in a container', () => {
  expect(['a', './a', 'a//b/', '/etc/./x', '/etc//x', '/', '/var/lib/'].map(containerPath)).toEqual([
    '/cnab/app/a',
    '/cnab/app/a',
    '/cnab/app/a/b',
    '/etc/x',
    '/etc/x',
    '/',
    '/var/lib',
  ]);
});
