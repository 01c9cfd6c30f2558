import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { entries } from '../src/cli/commands/index.ts';
import { referencePage } from '../src/cli/reference.ts';
import { errorPage } from './error-page.ts';

/** Writes the pages of docs/ that are made from declarations. */
const docs = join(import.meta.dirname, '../docs');
mkdirSync(docs, { recursive: true });
writeFileSync(join(docs, 'cli.md'), await referencePage(entries));
writeFileSync(join(docs, 'errors.md'), await errorPage());
