import { type ParsedDocument, readYaml } from '../document/index.ts';
import type { Bundle } from './model.ts';

const documents = new WeakMap<Bundle, ParsedDocument>();

/** Keeps the tree beside its bundle, so that lint finds places without a second parse. */
export function rememberDocument(bundle: Bundle, document: ParsedDocument): void {
  documents.set(bundle, document);
}

/** The tree behind a bundle; read again from its source where the bundle has been through JSON or a copy. */
export async function documentOf(bundle: Bundle): Promise<ParsedDocument> {
  const kept = documents.get(bundle);
  if (kept !== undefined) return kept;
  const document = await readYaml(bundle.source, { file: bundle.file });
  documents.set(bundle, document);
  return document;
}
