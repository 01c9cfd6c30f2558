import { chmod, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { openState } from '../index.ts';
import type { ManagedStateStore } from '../port.ts';
import { anInstallation, anOutput, aRun, joined, pieces } from './samples.fixture.ts';

const SECRET = 'PLANTED-secret-value-5f3a';
const PUBLIC = 'PLANTED-public-twin-5f3a';
const KEY = { namespace: 'dev', name: 'app' };

let directory: string;
let store: ManagedStateStore | undefined;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-key-'));
});
afterEach(async () => {
  await close();
  await rm(directory, { recursive: true, force: true });
});

async function close(): Promise<void> {
  await store?.[Symbol.asyncDispose]();
  store = undefined;
}

async function open(): Promise<ManagedStateStore> {
  store ??= await openState({ directory });
  return store;
}

async function fill(): Promise<void> {
  const state = await open();
  const parameters = {
    secret: { sensitive: true, value: SECRET },
    plain: { sensitive: false, value: PUBLIC },
  };
  await state.putInstallation(anInstallation('app', { parameters }));
  await state.putRun(aRun('A', { parameters }));
  await state.putOutput(anOutput('A', 'secret', { sensitive: true, value: Buffer.from(SECRET) }));
  await state.putOutput(anOutput('A', 'plain', { value: Buffer.from(PUBLIC) }));
  await state.saveState('INST-app', 'A', pieces(`${SECRET} in state`));
}

async function readAll(): Promise<unknown[]> {
  const state = await open();
  const installation = await state.getInstallation(KEY);
  const run = await state.getRun('A');
  return [
    installation?.parameters.secret?.value,
    run?.parameters.secret?.value,
    (await state.latestOutputs('INST-app')).map((output) => Buffer.from(output.value).toString()),
    (await joined(await state.loadState('INST-app')))?.toString(),
  ];
}
const EVERYTHING = [SECRET, SECRET, [PUBLIC, SECRET], `${SECRET} in state`];

async function grep(text: string): Promise<string[]> {
  const hits: string[] = [];
  for (const name of await readdir(directory, { recursive: true })) {
    const path = join(directory, name);
    if ((await stat(path)).isFile() && (await readFile(path)).includes(text)) hits.push(name);
  }
  return hits;
}

interface MasterFile {
  current: string;
  keys: Record<string, { secret: string }>;
}
async function master(): Promise<MasterFile> {
  return JSON.parse(await readFile(join(directory, 'master.key'), 'utf8')) as MasterFile;
}

/** With the store closed: two connections of one process to one file are SQLite's business only. */
function sql(text: string): Record<string, unknown>[] {
  const db = new DatabaseSync(join(directory, 'state.db'));
  try {
    return db.prepare(text).all();
  } finally {
    db.close();
  }
}

describe('encryption at rest', () => {
  it('leaves no byte of a sensitive value in any file, open or closed', async () => {
    await fill();
    const log = await open();
    expect(await grep(PUBLIC)).not.toEqual([]);
    for (const form of [
      SECRET,
      Buffer.from(SECRET).toString('base64').slice(0, -4),
      Buffer.from(SECRET).toString('hex'),
    ]) {
      expect(await grep(form)).toEqual([]);
    }
    expect(await log.fingerprint(Buffer.from(SECRET))).toMatch(/^hmac-sha256:[0-9a-f]{64}$/);
    await close();
    expect(await grep(SECRET)).toEqual([]);
    expect(await grep(PUBLIC)).not.toEqual([]);
    expect(await readAll()).toEqual(EVERYTHING);
  });

  it('binds a value to its place: moved or altered it does not open', async () => {
    await fill();
    await (await open()).putRun(aRun('B', { parameters: { secret: { sensitive: true, value: 'other' } } }));
    await (await open()).putOutput(anOutput('B', 'secret', { sensitive: true }));
    await close();
    sql(
      "UPDATE outputs SET value = (SELECT value FROM outputs WHERE run_id = 'A' AND name = 'secret') WHERE run_id = 'B'",
    );
    sql(
      "UPDATE runs SET document = (SELECT replace(document, '\"A\"', '\"B\"') FROM runs WHERE id = 'A') WHERE id = 'B'",
    );
    const state = await open();
    const corrupt = expect.objectContaining({
      code: 'STATE_CORRUPT',
      message: expect.stringContaining('"secret" of run B'),
    });
    const [output] = await state.runOutputs('B');
    expect(() => output?.value).toThrow(corrupt);
    const run = await state.getRun('B');
    expect(() => run?.parameters.secret?.value).toThrow(corrupt);
    expect((await state.getRun('A'))?.parameters.secret?.value).toBe(SECRET);
  });

  it('has a key file for its owner alone, and refuses one that others may have read', async () => {
    await fill();
    await close();
    const path = join(directory, 'master.key');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    await chmod(path, 0o644);
    await expect(open()).rejects.toMatchObject({
      code: 'STATE_KEY_FILE',
      exitCode: 65,
      hint: expect.stringContaining('chmod 600'),
    });
    await chmod(path, 0o600);
    const good = await readFile(path);
    for (const bad of [
      '',
      '{}',
      '{"version":1,"current":"x","keys":{}}',
      good.toString().replace(/"secret": "..../, '"secret": "'),
    ]) {
      await writeFile(path, bad);
      await expect(open()).rejects.toMatchObject({ code: 'STATE_KEY_FILE' });
    }
    await writeFile(path, good);
    expect(await readAll()).toEqual(EVERYTHING);
  });
});

describe('rotating keys', () => {
  it('seals everything anew, drops the old keys and keeps fingerprints', async () => {
    await fill();
    const before = await master();
    const fingerprint = await (await open()).fingerprint(Buffer.from('v'));
    await close();
    const sealedBefore = sql("SELECT key_id, value FROM outputs WHERE name = 'secret'");
    const keysBefore = sql("SELECT id FROM data_keys WHERE purpose = 'seal'");
    await (await open()).rotateKeys();
    await (await open()).rotateKeys();
    expect(await readAll()).toEqual(EVERYTHING);
    await close();
    const after = await master();
    expect(Object.keys(after.keys)).toEqual([after.current]);
    expect(after.current).not.toBe(before.current);
    expect(sql("SELECT key_id, value FROM outputs WHERE name = 'secret'")).not.toEqual(sealedBefore);
    const keysAfter = sql("SELECT id FROM data_keys WHERE purpose = 'seal'");
    expect(keysAfter).toHaveLength(1);
    expect(keysAfter).not.toEqual(keysBefore);
    expect(sql('SELECT document FROM installations WHERE instr(document, \'"k":\') = 0')).toEqual([]);
    expect(await readAll()).toEqual(EVERYTHING);
    expect(await (await open()).fingerprint(Buffer.from('v'))).toBe(fingerprint);
    expect(await (await open()).lostItems()).toEqual([]);
    // The old key file opens nothing any more.
    await close();
    await writeFile(join(directory, 'master.key'), JSON.stringify({ version: 1, ...before }), {
      mode: 0o600,
    });
    await expect(readAll()).rejects.toMatchObject({ code: 'STATE_KEY_LOST' });
  });
});

describe('a lost key', () => {
  it('costs what was sealed under it, names it, and leaves the rest usable', async () => {
    await fill();
    await close();
    const saved = `${directory}.saved`;
    await rename(join(directory, 'master.key'), saved);
    try {
      const state = await open();
      const installation = await state.getInstallation(KEY);
      expect(installation?.parameters.plain?.value).toBe(PUBLIC);
      expect(installation?.parameters.secret).toHaveProperty('lostKey', expect.stringMatching(/^dk-/));
      expect(() => installation?.parameters.secret?.value).toThrow(
        expect.objectContaining({
          code: 'STATE_KEY_LOST',
          message: expect.stringMatching(/parameter "secret" of installation dev\/app .* key dk-/),
          hint: expect.stringContaining('master.key'),
        }),
      );
      const outputs = await state.latestOutputs('INST-app');
      expect(outputs.map((output) => [output.name, output.lostKey === undefined])).toEqual([
        ['plain', true],
        ['secret', false],
      ]);
      await expect(state.loadState('INST-app')).rejects.toMatchObject({ code: 'STATE_KEY_LOST' });
      expect(
        (await state.lostItems()).map((item) => [item.kind, item.installationId, item.runId, item.name]),
      ).toEqual([
        ['parameter', 'INST-app', undefined, 'secret'],
        ['parameter', 'INST-app', 'A', 'secret'],
        ['output', 'INST-app', 'A', 'secret'],
        ['state', 'INST-app', 'A', 'state'],
      ]);
      // New values go on; the lost one is carried along and comes back with its key, also after a rotation.
      await state.putInstallation({
        ...installation!,
        parameters: { ...installation!.parameters, fresh: { sensitive: true, value: 'new' } },
      });
      await state.rotateKeys();
      expect((await state.getInstallation(KEY))?.parameters.fresh?.value).toBe('new');
      expect(await state.lostItems()).toHaveLength(4);
      await close();
      const old = JSON.parse(await readFile(saved, 'utf8')) as MasterFile;
      const now = await master();
      await writeFile(
        join(directory, 'master.key'),
        JSON.stringify({ ...now, keys: { ...old.keys, ...now.keys } }),
      );
      expect(await readAll()).toEqual(EVERYTHING);
      expect((await (await open()).getInstallation(KEY))?.parameters.fresh?.value).toBe('new');
    } finally {
      await rm(saved, { force: true });
    }
  });
});
