import { expect, it } from 'vitest';
import type { Flags } from '../types.ts';
import { userOf } from './image-common.ts';

const flagsOf = (user: string | undefined): Flags => ({ string: () => user }) as Partial<Flags> as Flags;

it.each([
  ['-1', 'has the id -1, which is out of range'],
  ['2147483648', 'has the id 2147483648, which is out of range'],
  ['app:-5', 'has the id -5, which is out of range'],
  ['a\nb', 'holds a control character'],
])('a user that no image may have is a fault of --user: %j', (user, fault) => {
  expect(() => userOf(flagsOf(user))).toThrow(
    expect.objectContaining({ code: 'USAGE', message: `--user ${JSON.stringify(user)} ${fault}` }),
  );
});

it.each([undefined, '', 'app', '2147483647', '1000:1000', 'app:staff'])('and %j is none', (user) => {
  expect(userOf(flagsOf(user))).toBe(user);
});
