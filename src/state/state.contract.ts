import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { StateStore } from './port.ts';
import {
  anInstallation,
  anOutput,
  aRun,
  aStep,
  joined,
  linesOf,
  pieces,
  T0,
} from './sqlite/samples.fixture.ts';

/** What every store of records keeps, whatever it is made of. */
export function stateContract(name: string, open: (directory: string) => Promise<StateStore>): void {
  describe(`${name} keeps the contract of StateStore`, () => {
    let directory: string;
    let store: StateStore;
    const never = new AbortController().signal;
    beforeEach(async () => {
      directory = await mkdtemp(join(tmpdir(), 'skycap-state-'));
      store = await open(directory);
    });
    afterEach(async () => {
      await store[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    });
    async function reopen(): Promise<void> {
      await store[Symbol.asyncDispose]();
      store = await open(directory);
    }

    it('gives installations back as they were put, also after reopening', async () => {
      const installation = anInstallation('app', {
        labels: { team: 'a' },
        custom: { deep: { list: [1, null, 'x'] } },
        parameters: {
          region: { sensitive: false, value: 'eu' },
          blob: { sensitive: false, value: new Uint8Array([0, 255, 10]) },
          password: { sensitive: true, value: 'hunter2\n' },
          tree: { sensitive: true, value: { a: [1, 'b'] } },
          raw: { sensitive: true, value: new Uint8Array([0, 1, 254]) },
        },
      });
      await store.putInstallation(installation);
      await reopen();
      expect(await store.getInstallation({ namespace: 'dev', name: 'app' })).toEqual(installation);
      expect(await store.getInstallation({ namespace: '', name: 'app' })).toBeUndefined();
    });

    it('replaces an installation by id and refuses a second id of one name', async () => {
      await store.putInstallation(anInstallation('app', { labels: { a: '1', b: '2' } }));
      await store.putInstallation(anInstallation('app', { labels: { b: '3' } }));
      expect((await store.listInstallations({})).map((each) => each.labels)).toEqual([{ b: '3' }]);
      expect(await store.listInstallations({ labels: { a: '1' } })).toEqual([]);
      await expect(store.putInstallation(anInstallation('app', { id: 'other' }))).rejects.toMatchObject({
        code: 'STATE_CONFLICT',
      });
    });

    it('lists by namespace, part of the name, labels, skip and limit', async () => {
      for (const [namespace, name, team] of [
        ['dev', 'web', 'a'],
        ['dev', 'db', 'a'],
        ['prod', 'web-2', 'b'],
        ['', 'web', 'a'],
      ] as const) {
        await store.putInstallation(
          anInstallation(name, { id: `${namespace}-${name}`, namespace, labels: { team, all: 'yes' } }),
        );
      }
      const names = async (filter: Parameters<StateStore['listInstallations']>[0]): Promise<string[]> =>
        (await store.listInstallations(filter)).map((each) => `${each.namespace}/${each.name}`);
      expect(await names({})).toEqual(['/web', 'dev/db', 'dev/web', 'prod/web-2']);
      expect(await names({ namespace: '' })).toEqual(['/web']);
      expect(await names({ namespace: 'dev' })).toEqual(['dev/db', 'dev/web']);
      expect(await names({ name: 'web' })).toEqual(['/web', 'dev/web', 'prod/web-2']);
      expect(await names({ name: '%' })).toEqual([]);
      expect(await names({ labels: { team: 'a', all: 'yes' }, namespace: 'dev' })).toEqual([
        'dev/db',
        'dev/web',
      ]);
      expect(await names({ labels: { team: 'a', all: 'no' } })).toEqual([]);
      expect(await names({ skip: 1, limit: 2 })).toEqual(['dev/db', 'dev/web']);
    });

    it('keeps runs, oldest first by whatever clock, with steps in their order', async () => {
      const second = aRun('B', { created: '2025-02-01T00:00:00.000Z', state: 'failed', message: 'no' });
      const first = aRun('A', {
        steps: [aStep('b', 1), aStep('a', 0)],
        parameters: { p: { sensitive: true, value: 's3cret' } },
      });
      await store.putRun(first);
      await store.putRun(second);
      // Written anew, it stays where it was.
      await store.putRun(first);
      expect((await store.listRuns({ installationId: 'INST-app' })).map((run) => run.id)).toEqual(['A', 'B']);
      expect((await store.listRuns({ states: ['failed', 'unknown'] })).map((run) => run.id)).toEqual(['B']);
      expect(await store.listRuns({ namespace: 'prod', installation: 'app' })).toEqual([]);
      const done = aStep('a', 0, {
        state: 'succeeded',
        exitCode: 0,
        attempts: [{ number: 1, containerId: 'c', state: 'succeeded' }],
      });
      await store.putStep('A', done);
      expect(await store.getRun('A')).toEqual({ ...first, steps: [done, aStep('b', 1)] });
      await store.putRun({ ...first, state: 'succeeded', steps: [done] });
      expect(await store.getRun('A')).toEqual({ ...first, state: 'succeeded', steps: [done] });
      expect(await store.getRun('nobody')).toBeUndefined();
      await expect(store.putStep('nobody', done)).rejects.toMatchObject({ code: 'STATE_NOT_FOUND' });
    });

    it('keeps intents until they are cleared, also when the installation is deleted', async () => {
      const intent = {
        namespace: 'dev',
        name: 'app',
        runId: 'A',
        stepId: 's',
        attempt: 1,
        containerId: 'c1',
        engine: 'fake',
        created: T0,
      };
      await store.putInstallation(anInstallation('app'));
      await store.putRun(aRun('A'));
      const step = aStep('s', 0);
      await store.putStep('A', step, { intent });
      await store.putStep('A', step, { intent: { ...intent, containerId: 'c2', attempt: 2 } });
      await store.putStep('A', step, { intent: { ...intent, name: 'other', containerId: 'c3' } });
      await store.deleteInstallation({ namespace: 'dev', name: 'app' });
      await reopen();
      expect(
        (await store.listIntents({ namespace: 'dev', name: 'app' })).map((each) => each.containerId),
      ).toEqual(['c1', 'c2']);
      await store.clearIntent('c1');
      expect(await store.listIntents({ namespace: 'dev', name: 'app' })).toEqual([
        { ...intent, containerId: 'c2', attempt: 2 },
      ]);
    });

    it('commits with a step what belongs to it, or nothing', async () => {
      const intent = {
        namespace: 'dev',
        name: 'app',
        runId: 'A',
        stepId: 's',
        attempt: 1,
        containerId: 'c1',
        engine: 'fake',
        created: T0,
      };
      const key = { namespace: 'dev', name: 'app' };
      await store.putInstallation(anInstallation('app'));
      await store.putRun(aRun('A'));
      await expect(store.putStep('nobody', aStep('s', 0), { intent })).rejects.toMatchObject({
        code: 'STATE_NOT_FOUND',
      });
      expect(await store.listIntents(key)).toEqual([]);
      await store.putStep('A', aStep('s', 0), { intent });
      const done = aStep('s', 0, { state: 'succeeded' });
      await store.putStep('A', done, { ended: 'c1', outputs: [anOutput('A', 'ip'), anOutput('A', 'host')] });
      await reopen();
      expect(await store.listIntents(key)).toEqual([]);
      expect((await store.getRun('A'))?.steps).toContainEqual(done);
      expect((await store.runOutputs('A')).map((each) => each.name).sort()).toEqual(['host', 'ip']);
    });

    it('gives the last value of each output, and keeps it when its run is deleted', async () => {
      await store.putInstallation(anInstallation('app'));
      for (const id of ['A', 'B']) await store.putRun(aRun(id));
      await store.putOutput(anOutput('A', 'ip'));
      await store.putOutput(
        anOutput('A', 'key', { sensitive: true, contentType: 'binary', value: new Uint8Array([0, 200]) }),
      );
      await store.putOutput(anOutput('B', 'ip', { value: Buffer.from('first') }));
      await store.putOutput(anOutput('B', 'ip', { value: Buffer.from('second') }));
      const latest = async (): Promise<string[]> =>
        (await store.latestOutputs('INST-app')).map(
          (each) => `${each.name}=${Buffer.from(each.value).toString('hex')}`,
        );
      const hex = Buffer.from('second').toString('hex');
      expect(await latest()).toEqual([`ip=${hex}`, 'key=00c8']);
      expect((await store.latestOutputs('INST-app', ['B'])).map((each) => [each.name, each.runId])).toEqual([
        ['ip', 'A'],
        ['key', 'A'],
      ]);
      expect((await store.runOutputs('A')).map((each) => [each.name, each.sensitive])).toEqual([
        ['ip', false],
        ['key', true],
      ]);
      await store.deleteRuns(['A']);
      expect(await store.getRun('A')).toBeUndefined();
      expect((await store.runOutputs('A')).map((each) => each.name)).toEqual(['key']);
      expect(await latest()).toEqual([`ip=${hex}`, 'key=00c8']);
    });

    it('saves, replaces and deletes bundle state of any size', async () => {
      expect(await store.loadState('INST-app')).toBeUndefined();
      const edge = 256 * 1024;
      for (const size of [0, 1, edge - 1, edge, edge + 1, 3 * edge]) {
        const content = Buffer.alloc(size, size % 251);
        await store.saveState('INST-app', 'A', pieces(content.subarray(0, 1000), content.subarray(1000)));
        expect((await joined(await store.loadState('INST-app')))?.equals(content)).toBe(true);
        expect(await store.stateRun('INST-app')).toBe('A');
      }
      async function* broken(): AsyncGenerator<Uint8Array> {
        yield Buffer.from('half');
        throw new Error('the source broke');
      }
      await expect(store.saveState('INST-app', 'B', broken())).rejects.toThrow('the source broke');
      await reopen();
      expect((await joined(await store.loadState('INST-app')))?.length).toBe(3 * edge);
      await store.deleteState('INST-app');
      expect(await store.loadState('INST-app')).toBeUndefined();
      expect(await store.stateRun('INST-app')).toBeUndefined();
    });

    it('deletes an installation with runs, outputs, state and logs, and no other', async () => {
      for (const name of ['app', 'other']) {
        await store.putInstallation(anInstallation(name));
        await store.putRun(aRun(`run-${name}`, { installation: name, installationId: `INST-${name}` }));
        await store.putOutput(anOutput(`run-${name}`, 'ip', { installationId: `INST-${name}` }));
        await store.saveState(`INST-${name}`, `run-${name}`, pieces('state'));
        await using log = await store.openLog(`run-${name}`);
        log.write('{}');
      }
      await store.deleteInstallation({ namespace: 'dev', name: 'app' });
      await store.deleteInstallation({ namespace: 'dev', name: 'app' });
      expect((await store.listInstallations({})).map((each) => each.name)).toEqual(['other']);
      expect((await store.listRuns({})).map((run) => run.id)).toEqual(['run-other']);
      expect(await store.latestOutputs('INST-app')).toEqual([]);
      expect(await store.loadState('INST-app')).toBeUndefined();
      await expect(linesOf(store.readLog('run-app', { follow: false, signal: never }))).rejects.toMatchObject(
        {
          code: 'STATE_NOT_FOUND',
        },
      );
      expect(await store.latestOutputs('INST-other')).toHaveLength(1);
      expect(await joined(await store.loadState('INST-other'))).toEqual(Buffer.from('state'));
      expect(await linesOf(store.readLog('run-other', { follow: false, signal: never }))).toEqual(['{}']);
    });

    it('follows a log until the run has ended', async () => {
      await store.putRun(aRun('A'));
      const seen = linesOf(store.readLog('A', { follow: true, signal: never }));
      const log = await store.openLog('A');
      for (let n = 0; n < 3; n++) {
        log.write(`{"n":${n}}`);
        await log.flush();
      }
      log.write('{"last":"é✓"}');
      await log[Symbol.asyncDispose]();
      await store.putRun(aRun('A', { state: 'succeeded' }));
      expect(await seen).toEqual(['{"n":0}', '{"n":1}', '{"n":2}', '{"last":"é✓"}']);
    });

    it('stops following at the signal', async () => {
      await store.putRun(aRun('A'));
      const stop = new AbortController();
      const seen = linesOf(store.readLog('A', { follow: true, signal: stop.signal }));
      stop.abort();
      expect(await seen).toEqual([]);
    });

    it('makes equal fingerprints of equal values, stable over reopening', async () => {
      const before = await store.fingerprint(Buffer.from('v'));
      expect(await store.fingerprint(Buffer.from('w'))).not.toBe(before);
      await reopen();
      expect(await store.fingerprint(Buffer.from('v'))).toBe(before);
    });

    it('gives one exclusive lock or many shared ones per installation', async () => {
      const key = { namespace: 'dev', name: 'app' };
      const holder = { runId: 'A', action: 'upgrade' };
      const one = await store.lock(key, 'exclusive', holder);
      for (const mode of ['exclusive', 'shared'] as const) {
        await expect(store.lock(key, mode, { runId: 'B', action: 'x' })).rejects.toMatchObject({
          code: 'STATE_LOCKED',
          details: { runId: 'A', action: 'upgrade', pid: process.pid },
        });
      }
      await using _other = await store.lock({ namespace: '', name: 'app' }, 'exclusive', holder);
      await one[Symbol.asyncDispose]();
      const shared = [await store.lock(key, 'shared', holder), await store.lock(key, 'shared', holder)];
      await expect(store.lock(key, 'exclusive', holder)).rejects.toMatchObject({ code: 'STATE_LOCKED' });
      for (const each of shared) await each[Symbol.asyncDispose]();
      await using _again = await store.lock(key, 'exclusive', holder);
    });
  });
}
