import type { ParsedDocument } from '../document/index.ts';
import { parseYaml } from '../document/syntax/index.ts';
import type { Bundle } from './model.ts';

const documents = new WeakMap<Bundle, ParsedDocument>();

/** Keeps the tree beside its bundle, so that lint finds places without a second parse. */
export function rememberDocument(bundle: Bundle, document: ParsedDocument): void {
  documents.set(bundle, document);
}

/** The tree behind a bundle; read again from its source where the bundle has been through JSON or a copy. */
export function documentOf(bundle: Bundle): ParsedDocument {
  const kept = documents.get(bundle);
  if (kept !== undefined) return kept;
  const document = parseYaml(bundle.source, { file: bundle.file });
  documents.set(bundle, document);
  return document;
}
