import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { preparePrograms, putProgram } from './programs.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'skycap-'));
});

afterEach(() => rmSync(folder, { recursive: true }));

describe('helper programs', () => {
  it('stay the files that they are, also where two processes come to make one at once', () => {
    const { init } = preparePrograms(folder);
    const { ino } = statSync(init);

    preparePrograms(folder);
    // As of a process that had not seen it.
    putProgram(init, readFileSync(init));

    expect(statSync(init).ino).toBe(ino);
    expect(readdirSync(folder)).toHaveLength(2);
  });

  it('are made again where they are damaged', () => {
    const { init } = preparePrograms(folder);
    const program = readFileSync(init);
    writeFileSync(init, 'x');

    expect(readFileSync(preparePrograms(folder).init)).toEqual(program);
    expect(statSync(init).mode & 0o777).toBe(0o755);
  });
});
