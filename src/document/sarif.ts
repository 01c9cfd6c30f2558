import type { Json, Problem } from './types.ts';

const LEVELS = { error: 'error', warning: 'warning', note: 'note' } as const;

/**
 * Findings as one SARIF 2.1.0 log (OASIS, "Static Analysis Results Interchange Format"), ready for `JSON.stringify`.
 * Columns count UTF-16 units, as SARIF's default `columnKind` does.
 */
export function toSarif(problems: readonly Problem[], tool: { readonly version: string }): Json {
  const rules = [...new Set(problems.map((problem) => problem.code))].sort();
  return {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: { driver: { name: 'skycap', version: tool.version, rules: rules.map((id) => ({ id })) } },
        columnKind: 'utf16CodeUnits',
        results: problems.map((problem) => ({
          ruleId: problem.code,
          ruleIndex: rules.indexOf(problem.code),
          level: LEVELS[problem.severity],
          message: {
            text: problem.hint === undefined ? problem.message : `${problem.message}; ${problem.hint}`,
          },
          locations: [{ physicalLocation: physical(problem) }],
        })),
      },
    ],
  };
}

function physical(problem: Problem): Json {
  const { file, line, column } = problem.place;
  const uri = file.split('/').map(encodeURIComponent).join('/');
  const artifactLocation = { uri };
  if (line === undefined) return { artifactLocation };
  return {
    artifactLocation,
    region: { startLine: line, ...(column === undefined ? {} : { startColumn: column }) },
  };
}
