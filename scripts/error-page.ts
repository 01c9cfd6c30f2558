import { globSync } from 'node:fs';
import { join } from 'node:path';
import type { ErrorTable } from '../src/kernel/index.ts';

const root = join(import.meta.dirname, '..');

interface Table {
  readonly room: string;
  readonly table: ErrorTable;
}

/** Every table of error codes in the rooms. */
export async function errorTables(): Promise<readonly Table[]> {
  const tables: Table[] = [];
  for (const file of globSync('src/**/errors.ts', { cwd: root }).sort()) {
    const module = (await import(join(root, file))) as Record<
      string,
      { readonly table?: ErrorTable } | undefined
    >;
    for (const exported of Object.values(module)) {
      if (exported?.table === undefined) continue;
      tables.push({ room: file.replace(/^src\/|\/errors\.ts$/g, ''), table: exported.table });
    }
  }
  return tables;
}

/** docs/errors.md, from the tables. */
export async function errorPage(): Promise<string> {
  const tables = await errorTables();
  const rows = tables.flatMap(({ room, table }) =>
    Object.entries(table).map(([code, { exit, summary }]) => ({ room, code, exit, summary })),
  );
  const seen = new Set<string>();
  for (const { code } of rows) {
    if (seen.has(code)) throw new Error(`error code ${code} stands in two tables`);
    seen.add(code);
  }
  const sorted = rows.sort((a, b) => a.exit - b.exit || (a.code < b.code ? -1 : 1));
  return `# Error codes

Made by \`npm run docs\` from the tables in the code. Every error has a code, a message that names the thing and the place, and a hint; \`-o json\` gives all of it as JSON. The exit code tells the room: 1 Skycap's own fault, 2 usage, 10–19 bundle, 20–29 registry, 30–39 trust, 40–49 engine, 50 a step failed, 51 a step ended unknown, 60–69 state, 130 cancelled.

| exit | code | what | room |
|---|---|---|---|
${sorted.map(({ room, code, exit, summary }) => `| ${exit} | \`${code}\` | ${summary} | ${room} |`).join('\n')}
`;
}
