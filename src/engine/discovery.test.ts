import { describe, expect, it } from 'vitest';
import { SkycapError } from '../kernel/index.ts';
import {
  discoverEngine,
  type EngineStrategy,
  type EngineSurroundings,
  engineStrategies,
} from './discovery.ts';
import { createFakeEngine } from './fake/index.ts';

const surroundings = {
  uid: 1000,
  path: '/nowhere',
  dockerSocket: '/nowhere/docker.sock',
} as EngineSurroundings;

const dummy: EngineStrategy = {
  name: 'dummy',
  aliases: ['toy'],
  gaps: [],
  probe: async () => ({ fits: true, detail: 'always here', limits: ['cannot swim'] }),
  make: async () => createFakeEngine(),
};

describe('discovery', () => {
  it('takes the first that fits and says why, and why not the ones before', async () => {
    const [crun] = engineStrategies as [EngineStrategy];
    const found = await discoverEngine(surroundings, undefined, [crun, dummy]);
    expect(found.name).toBe('dummy');
    expect(found.because).toMatch(/^the first that fits \(always here\); crun: /);
    expect(found.limits).toEqual(['cannot swim']);
  });

  it('says of each engine why it does not fit, with the install line', async () => {
    const refused = discoverEngine(surroundings);
    await expect(refused).rejects.toMatchObject({ code: 'ENGINE_NONE', exitCode: 40 });
    await expect(refused).rejects.toThrow(/crun: it needs root.*docker: /s);
    await refused.catch((cause: { hint: string }) =>
      expect(cause.hint).toMatch(/for crun: .*; or for docker: /s),
    );
  });

  it('takes an address that is none as a reason of Docker’s and no more', async () => {
    const wrong = {
      ...surroundings,
      dockerSocket: () =>
        Promise.reject(new SkycapError('X', 40, 'tcp:// is no socket', { hint: 'unset it' })),
    };
    await expect(discoverEngine(wrong)).rejects.toThrow(/crun: .*; docker: tcp:\/\/ is no socket/);
    expect((await discoverEngine(wrong, undefined, [...engineStrategies, dummy])).name).toBe('dummy');
  });

  it('takes what was asked for, by name and alias, and nothing else', async () => {
    expect((await discoverEngine(surroundings, 'toy', [dummy])).because).toBe('asked for (always here)');
    await expect(discoverEngine(surroundings, 'podmann')).rejects.toMatchObject({
      code: 'ENGINE_UNKNOWN',
      hint: 'use crun or docker',
    });
    await expect(discoverEngine(surroundings, 'crun')).rejects.toMatchObject({ code: 'ENGINE_UNKNOWN' });
  });
});
