import { isTag } from '../../names/index.ts';
import { listInvalid, pagesOf } from './pages.ts';
import type { Target } from './target.ts';

/** Registries give fewer where they want to. */
const PAGE = 1000;
const WHAT = 'the list of tags';

/** All pages, each tag once, in the registry's order (distribution-spec, "Listing Tags"). */
export async function listTags(target: Target): Promise<readonly string[]> {
  const tags = new Set<string>();
  const path = `${target.repository}/tags/list?n=${PAGE}`;
  const request = { path, what: WHAT, mediaType: 'application/json', accept: [] };
  for await (const { bytes } of pagesOf(target, request)) {
    for (const tag of readPage(Buffer.from(bytes).toString('utf8'), target.subject)) tags.add(tag);
  }
  return [...tags];
}

function readPage(text: string, subject: string): readonly string[] {
  let value: { tags?: unknown } | null;
  try {
    value = JSON.parse(text) as typeof value;
  } catch {
    const isPage = text.trimStart().startsWith('<');
    throw listInvalid(subject, WHAT, isPage ? 'the answer is a web page' : 'the answer is not JSON');
  }
  const tags = value?.tags ?? [];
  if (!Array.isArray(tags)) throw listInvalid(subject, WHAT, 'the answer holds no list');
  // What is no tag cannot be asked for; it is left out rather than shown as one.
  return tags.filter((tag): tag is string => typeof tag === 'string' && isTag(tag));
}
