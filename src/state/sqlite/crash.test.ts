import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { openState } from '../index.ts';
import { anInstallation, aRun, joined, linesOf, pieces } from './samples.fixture.ts';

const CHILD = fileURLToPath(new URL('child.fixture.ts', import.meta.url));
const never = new AbortController().signal;

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-crash-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

function start(command: string, argument = ''): { child: ChildProcess; lines: AsyncIterator<string> } {
  const child = spawn(process.execPath, ['--no-warnings', CHILD, command, directory, argument], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  return { child, lines: createInterface({ input: child.stdout! })[Symbol.asyncIterator]() };
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

describe('killed with -9', () => {
  it('a writer loses no record that it had been told was kept, and leaves none half', async () => {
    const { child, lines } = start('write');
    let last = -1;
    for (let count = 0; count < 200; count++) last = Number((await lines.next()).value);
    await kill(child);
    for (let next = await lines.next(); next.done !== true; next = await lines.next())
      last = Number(next.value);
    await using store = await openState({ directory });
    const runs = await store.listRuns({});
    expect(runs.length).toBeGreaterThan(last);
    for (let n = 0; n <= last; n++) {
      const outputs = await store.runOutputs(`run-${n}`);
      expect(outputs.map((output) => Buffer.from(output.value).toString())).toEqual([`out of run-${n}`]);
    }
  });

  it('while it saves state: the earlier state stays, and the next save removes the remains', async () => {
    {
      await using store = await openState({ directory });
      await store.saveState('INST-app', 'A', pieces('earlier'));
    }
    const { child, lines } = start('save');
    expect((await lines.next()).value).toBe('half');
    const folder = join(directory, 'bundle-state', 'INST-app');
    expect(await readdir(folder)).toHaveLength(2);
    {
      // While the other still writes, its file is left alone.
      await using store = await openState({ directory });
      await store.saveState('INST-app', 'B', pieces('meanwhile'));
      expect((await readdir(folder)).filter((name) => name.endsWith('.partial'))).toHaveLength(1);
    }
    await kill(child);
    await using store = await openState({ directory });
    expect((await joined(await store.loadState('INST-app')))?.toString()).toBe('meanwhile');
    await store.saveState('INST-app', 'C', pieces('later'));
    expect(await readdir(folder)).toHaveLength(1);
    expect((await joined(await store.loadState('INST-app')))?.toString()).toBe('later');
  });

  it('while it rotates keys, at many moments: everything stays readable', async () => {
    {
      await using store = await openState({ directory });
      for (let n = 0; n < 50; n++) {
        await store.putInstallation(
          anInstallation(`app-${n}`, { parameters: { p: { sensitive: true, value: `value-${n}` } } }),
        );
      }
    }
    for (let round = 0; round < 8; round++) {
      const { child, lines } = start('rotate', 'again');
      await lines.next();
      // A rotation takes a few milliseconds; each round hits another part of it.
      await sleep(round * 1.7);
      await kill(child);
      await using store = await openState({ directory });
      expect(await store.lostItems()).toEqual([]);
      const values = (await store.listInstallations({})).map((each) => each.parameters.p?.value);
      expect(new Set(values)).toEqual(new Set(Array.from({ length: 50 }, (_, n) => `value-${n}`)));
    }
    await using store = await openState({ directory });
    await store.rotateKeys();
    const file = JSON.parse(await readFile(join(directory, 'master.key'), 'utf8')) as { keys: object };
    expect(Object.keys(file.keys)).toHaveLength(1);
  });
});

describe('several processes', () => {
  it('open a new store at once and use one master key', async () => {
    const children = Array.from({ length: 8 }, () => start('open'));
    const prints = await Promise.all(
      children.map(async ({ child, lines }) => {
        const print = (await lines.next()).value as string;
        child.stdin?.end();
        if (child.exitCode === null) await once(child, 'exit');
        expect(child.exitCode).toBe(0);
        return print;
      }),
    );
    expect(new Set(prints).size).toBe(1);
    await using store = await openState({ directory });
    const installations = await store.listInstallations({});
    expect(installations).toHaveLength(8);
    for (const each of installations) expect(each.parameters.p?.value).toBe(each.name);
    expect(await store.lostItems()).toEqual([]);
  });

  it('write through a rotation of another without loss', async () => {
    await using store = await openState({ directory });
    const { child, lines } = start('rotate');
    const done = lines.next();
    let rotated = false;
    void done.then(() => {
      rotated = true;
    });
    let written = 0;
    while (!rotated || written < 20) {
      await store.putInstallation(
        anInstallation(`app-${written}`, { parameters: { p: { sensitive: true, value: written } } }),
      );
      written++;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await done).value).toBe('rotated');
    if (child.exitCode === null) await once(child, 'exit');
    expect(
      (await store.listInstallations({})).every((each) => typeof each.parameters.p?.value === 'number'),
    ).toBe(true);
    expect(await store.lostItems()).toEqual([]);
  });

  it('follow the log of another, and skip the half line that it left when it was killed', async () => {
    await using store = await openState({ directory });
    await store.putRun(aRun('run-log'));
    const followed = linesOf(store.readLog('run-log', { follow: true, signal: never }));
    const { child, lines } = start('log', '40');
    expect((await lines.next()).value).toBe('written');
    await kill(child);
    await appendFile(join(directory, 'logs', 'run-log.ndjson'), '{"torn":{}');
    const log = await store.openLog('run-log');
    log.write('{"after":1}');
    await log[Symbol.asyncDispose]();
    await store.putRun(aRun('run-log', { state: 'unknown' }));
    const expected = [...Array.from({ length: 40 }, (_, n) => `{"n":${n}}`), '{"after":1}'];
    expect(await followed).toEqual(expected);
    expect(await linesOf(store.readLog('run-log', { follow: false, signal: never }))).toEqual(expected);
    expect(() => log.write('{}')).toThrow('closed');
  });
});

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** What buffers hold that somebody still holds: when the others are given back is the engine's affair. */
function heldBytes(): number {
  // What the first time finds is given back beside the program; the second time waits for that.
  collectGarbage();
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}

describe('saved state on disk', () => {
  const file = async (): Promise<string> => {
    const folder = join(directory, 'bundle-state', 'INST-app');
    return join(folder, (await readdir(folder))[0]!);
  };

  it('is refused when a byte was changed, chunks were swapped, or the end is missing', async () => {
    const chunk = 256 * 1024;
    const content = Buffer.alloc(3 * chunk + 5, 'state');
    await using store = await openState({ directory });
    await store.saveState('INST-app', 'A', pieces(content));
    const path = await file();
    const good = await readFile(path);
    const sealed = chunk + 20;
    const swapped = Buffer.concat([
      good.subarray(0, 8),
      good.subarray(8 + sealed, 8 + 2 * sealed),
      good.subarray(8, 8 + sealed),
      good.subarray(8 + 2 * sealed),
    ]);
    const flipped = (at: number): Buffer => {
      const bytes = Buffer.from(good);
      bytes[at]! ^= 1;
      return bytes;
    };
    const wrong = [swapped, flipped(3), flipped(9), flipped(100), flipped(good.length - 1)];
    // Cut at a chunk's edge and filled up, so that the size is right.
    wrong.push(Buffer.concat([good.subarray(0, 8 + sealed), Buffer.alloc(good.length - 8 - sealed)]));
    for (const bytes of wrong) {
      await writeFile(path, bytes);
      await expect(store.loadState('INST-app').then(joined)).rejects.toMatchObject({ code: 'STATE_CORRUPT' });
    }
    await writeFile(path, good);
    await truncate(path, 8 + sealed);
    await expect(store.loadState('INST-app')).rejects.toMatchObject({ code: 'STATE_CORRUPT' });
    await rm(path);
    await expect(store.loadState('INST-app')).rejects.toMatchObject({
      code: 'STATE_CORRUPT',
      message: expect.stringContaining(path),
    });
    await store.saveState('INST-app', 'B', pieces('new'));
    expect((await joined(await store.loadState('INST-app')))?.toString()).toBe('new');
  });

  it('of an installation with any id stays in its folder', async () => {
    await using store = await openState({ directory });
    for (const id of ['../../escape', 'a/b', '']) {
      await store.saveState(id, 'A', pieces(`of ${id}`));
      expect((await joined(await store.loadState(id)))?.toString()).toBe(`of ${id}`);
      await store.deleteState(id);
    }
    expect(await readdir(join(directory, 'bundle-state'))).toEqual([]);
    await expect(linesOf(store.readLog('../../x', { follow: false, signal: never }))).rejects.toMatchObject({
      code: 'STATE_NOT_FOUND',
    });
  });

  it('passes through in constant memory', async () => {
    await using store = await openState({ directory });
    const total = 256;
    const block = Buffer.alloc(1024 * 1024, 7);
    let peak = 0;
    let looks = 0;
    const look = (): void => {
      if (looks++ % 32 === 0) peak = Math.max(peak, heldBytes());
    };
    async function* source(): AsyncGenerator<Uint8Array> {
      for (let n = 0; n < total; n++) {
        look();
        yield block;
      }
    }
    const before = heldBytes();
    await store.saveState('INST-app', 'A', source());
    let size = 0;
    for await (const part of (await store.loadState('INST-app'))!) {
      size += part.length;
      look();
    }
    expect(size).toBe(total * block.length);
    expect(peak - before).toBeLessThan(64 * 1024 * 1024);
  });
});
