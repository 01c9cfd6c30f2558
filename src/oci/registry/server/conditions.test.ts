import { describe, expect, it } from 'vitest';
import { digestOf } from '../../names/index.ts';
import { entityTag, isUnchanged } from './conditions.ts';
import { Refused } from './refused.ts';

const here = digestOf('here');
const other = digestOf('other');
const tag = (digest: string): string => `"${digest}"`;

/** What a refusal says, or the answer. */
function outcome(method: string, headers: Record<string, string>, current = here as typeof here | undefined) {
  try {
    return isUnchanged(method, headers, current);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return [error.status, error.code, error.message, error.headers];
  }
}

const changed = [412, 'PRECONDITION_FAILED', 'this is not what is here now', { etag: tag(here) }];
const present = [412, 'PRECONDITION_FAILED', 'something is here already', { etag: tag(here) }];

describe('entity tags', () => {
  it('are digests in quotes', () => {
    expect(entityTag(here)).toBe(`"${here}"`);
  });
});

describe.each(['GET', 'HEAD'])('%s', (method) => {
  it('is unchanged where the reader has what is here', () => {
    for (const match of [tag(here), `W/${tag(here)}`, '*', `${tag(other)} , ${tag(here)}`])
      expect([match, outcome(method, { 'if-none-match': match })]).toEqual([match, true]);
  });

  it('gives what the reader has not', () => {
    for (const match of [tag(other), here, `xW/${tag(here)}`, `${tag(here)}x`, ''])
      expect([match, outcome(method, { 'if-none-match': match })]).toEqual([match, false]);
    expect(outcome(method, {})).toBe(false);
    expect(outcome(method, { 'if-match': tag(here) })).toBe(false);
  });

  it('is refused where the reader wants something else', () => {
    expect(outcome(method, { 'if-match': tag(other) })).toEqual(changed);
    expect(outcome(method, { 'if-match': tag(other), 'if-none-match': tag(here) })).toEqual(changed);
  });
});

describe.each(['PUT', 'DELETE'])('%s', (method) => {
  it('goes on where the writer knows what is here, and not where it is something else', () => {
    expect(outcome(method, { 'if-match': tag(here) })).toBe(false);
    expect(outcome(method, { 'if-match': '*' })).toBe(false);
    expect(outcome(method, { 'if-match': tag(other) })).toEqual(changed);
  });

  it('goes on over nothing where that is asked for, and over something not', () => {
    expect(outcome(method, { 'if-none-match': '*' })).toEqual(present);
    expect(outcome(method, { 'if-none-match': tag(here) })).toEqual(present);
    expect(outcome(method, { 'if-none-match': tag(other) })).toBe(false);
    expect(isUnchanged(method, { 'if-none-match': '*' }, undefined)).toBe(false);
  });

  it('has no entity tag to show where nothing is here', () => {
    expect(() => isUnchanged(method, { 'if-match': '*' }, undefined)).toThrow(
      expect.objectContaining({ status: 412, headers: {} }),
    );
  });
});
