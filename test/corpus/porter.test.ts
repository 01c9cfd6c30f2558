import { describe, expect, test } from 'vitest';
import { loadBundle } from '../../src/bundle/index.ts';
import { bare, expressionCases, readJson, sourceOf, tableBelow, verdicts } from './data.ts';
import { refusals } from './refusals.ts';

const { lintSource, parseBundle, toCnabBundle } = await loadBundle();

const accepted = verdicts.filter((verdict) => verdict.accepted);

/** Porter's own lint errors, which are ours too. */
const PORTERS = new Set(['porter-101', 'porter-102']);

async function findings(file: string) {
  return lintSource(sourceOf(file), { file });
}

test('the data are the ones that the suite was written for', () => {
  expect(verdicts.length).toBe(100);
  expect(accepted.length).toBe(66);
  expect(expressionCases.length).toBe(319);
});

describe('files that Porter accepts', () => {
  const stricter = new Map(
    tableBelow('Files that Skycap refuses and Porter accepts').map(([file, code]) => [
      bare(file),
      bare(code),
    ]),
  );

  test('no more than eight are refused for reasons of our own', () => {
    expect(stricter.size).toBeLessThanOrEqual(8);
  });

  test.each(accepted.map((verdict) => [verdict.file, verdict] as const))('%s', async (file, verdict) => {
    const errors = (await findings(file)).filter((problem) => problem.severity === 'error');
    const own = errors.filter((problem) => !PORTERS.has(problem.code)).map((problem) => problem.code);
    expect([...new Set(own)].join(' ')).toBe(stricter.get(file) ?? '');
    // Porter's rules are found where Porter finds them, and nowhere else.
    const porters = (codes: readonly string[]) =>
      [...new Set(codes.filter((code) => PORTERS.has(code)))].sort();
    expect(porters(errors.map((problem) => problem.code))).toEqual(
      porters((verdict.lint?.results ?? []).map((result) => result.code)),
    );
  });

  test('each mixin that a file uses is a note', async () => {
    let notes = 0;
    for (const { file } of accepted)
      notes += (await findings(file)).filter(
        (one) => one.code === 'mixin-step' && one.severity === 'note',
      ).length;
    expect(notes).toBeGreaterThanOrEqual(accepted.length);
  });
});

describe('files that Porter refuses', () => {
  const refused = verdicts.filter((verdict) => !verdict.accepted).map((verdict) => verdict.file);

  test('each has its line in the table', () => {
    expect(refusals.map(([file]) => file)).toEqual(refused);
  });

  test.each(refusals)('%s', async (file, expected) => {
    const errors = (await findings(file)).filter((problem) => problem.severity === 'error');
    expect(errors.map((problem) => `${problem.code}:${problem.place.line}`)).toEqual(expected);
    for (const problem of errors) {
      expect(problem.place.column).toBeGreaterThan(0);
      expect(problem.place.excerpt).toContain('^');
    }
  });

  test('those that Skycap accepts are listed', () => {
    const listed = tableBelow('Files that Skycap accepts and Porter refuses').map(([file]) => bare(file));
    expect(listed.sort()).toEqual(
      refusals
        .filter(([, errors]) => errors.length === 0)
        .map(([file]) => file)
        .sort(),
    );
  });
});

describe('bundle.json', () => {
  const PARTS = ['parameters', 'credentials', 'outputs', 'actions', 'images', 'definitions'] as const;

  test.each(accepted.map((verdict) => [verdict.file, verdict] as const))('%s', (file, verdict) => {
    const stated = readJson<Record<string, unknown>>(`oracle/porter/${verdict.bundle}`);
    const ours = cnabOf(file);
    for (const part of PARTS) expect(ours[part] ?? {}, part).toEqual(stated[part] ?? {});
    expect([ours.name, ours.version, ours.description]).toEqual([
      stated.name,
      stated.version,
      stated.description,
    ]);
    expect(ours.schemaVersion).toBe(stated.schemaVersion);
    expect(ours.requiredExtensions).toEqual(stated.requiredExtensions);
    expect(ours.maintainers).toEqual(stated.maintainers);
  });

  test('what differs elsewhere is listed', () => {
    const seen = new Set<string>();
    for (const verdict of accepted) {
      const stated = readJson<Record<string, unknown>>(`oracle/porter/${verdict.bundle}`);
      const ours = cnabOf(verdict.file);
      for (const key of union(stated, ours)) {
        if (key === 'custom') {
          const [a, b] = [stated.custom as Record<string, unknown>, ours.custom as Record<string, unknown>];
          for (const inner of union(a, b)) if (!same(a[inner], b[inner])) seen.add(`custom.${inner}`);
        } else if (!same(stated[key], ours[key])) seen.add(key);
      }
    }
    expect([...seen].sort()).toEqual(
      tableBelow('bundle.json')
        .map(([key]) => bare(key))
        .sort(),
    );
  });
});

/** The file's bundle.json, also where lint refuses the file for its expressions. */
function cnabOf(file: string): Record<string, unknown> {
  const { bundle } = parseBundle(sourceOf(file), { file });
  if (bundle === undefined) throw new Error(`${file} does not parse`);
  return toCnabBundle(bundle) as Record<string, unknown>;
}

function union(a: object, b: object): readonly string[] {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])];
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .map(([key, one]) => [key, sorted(one)] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );
}

describe('what lint says', () => {
  test('warnings that Porter does not have are listed, with their files', async () => {
    const seen: string[] = [];
    for (const { file } of accepted)
      for (const code of new Set(
        (await findings(file)).filter((one) => one.severity === 'warning').map((one) => one.code),
      ))
        seen.push(`${code} ${file}`);
    const listed = tableBelow('Warnings that Porter does not have').map(
      ([code, file]) => `${bare(code)} ${bare(file)}`,
    );
    expect(listed.sort()).toEqual(seen.sort());
  });

  test('rules of Porter that are not ours are listed', () => {
    const codes = new Set(
      accepted.flatMap((verdict) => (verdict.lint?.results ?? []).map((result) => result.code)),
    );
    const missing = [...codes].filter((code) => !PORTERS.has(code)).sort();
    expect(tableBelow('Lint rules of Porter that Skycap does not have').map(([code]) => bare(code))).toEqual(
      missing,
    );
  });
});

describe('manifests with expressions', () => {
  test('where lint and Porter’s build disagree is listed', async () => {
    const seen: string[] = [];
    for (const one of expressionCases) {
      const errors = (await lintSource(one.manifest, { file: `${one.id}.yaml` })).filter(
        (problem) => problem.severity === 'error',
      );
      const porter =
        one.error === undefined
          ? 'gives a result'
          : one.stage === 'build'
            ? 'refuses it at build'
            : 'fails when it runs';
      const ours = errors.length === 0 ? 'accepts' : 'refuses';
      const agree =
        (porter === 'refuses it at build') === (ours === 'refuses') &&
        !(porter === 'fails when it runs' && ours === 'refuses');
      if (!agree)
        seen.push(
          `${one.id} | ${porter} | ${ours === 'refuses' ? [...new Set(errors.map((problem) => problem.code))].join(' ') : 'accepts it'}`,
        );
    }
    const listed = tableBelow('Expressions').map(
      ([id, porter, ours]) => `${bare(id)} | ${porter} | ${bare(ours)}`,
    );
    expect(listed.sort()).toEqual(seen.sort());
  });
});
