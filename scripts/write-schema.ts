// Writes docs/schema/porter.schema.json from the shapes that the parser checks with.
import { writeFileSync } from 'node:fs';
import { loadBundle } from '../src/bundle/index.ts';

const { bundleSchema } = await loadBundle();
writeFileSync(
  new URL('../docs/schema/porter.schema.json', import.meta.url),
  `${JSON.stringify(bundleSchema(), null, 2)}\n`,
);
