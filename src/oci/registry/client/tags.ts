import { ociError } from '../../errors.ts';
import { isTag, quoted } from '../../names/index.ts';
import { nextLink } from './link.ts';
import { pullScope, type Target } from './target.ts';

const PAGE = 1000;
const LARGEST_PAGE = 8 * 1024 * 1024;
const MOST_PAGES = 10_000;

/** All pages (distribution-spec, "Listing Tags"); `Link` is followed as it stands, on the same host only. */
export async function listTags(target: Target): Promise<readonly string[]> {
  const { host, repository, subject, options, caller } = target;
  const tags = new Set<string>();
  const seen = new Set<string>();
  let next: string | URL | undefined = `${repository}/tags/list?n=${PAGE}`;
  while (next !== undefined) {
    const { response, url, bytes } = await caller.call({
      host,
      repository,
      path: next,
      subject,
      options,
      scopes: [pullScope(repository)],
      accept: [200],
      collect: LARGEST_PAGE,
      headers: { accept: 'application/json' },
      lane: 'control',
    });
    for (const tag of readPage(Buffer.from(bytes).toString('utf8'), subject)) tags.add(tag);
    seen.add(url.href);
    const link = nextLink(response.values('link'));
    if (link === undefined) return [...tags];
    next = URL.canParse(link, url.href) ? new URL(link, url) : undefined;
    if (next === undefined || next.origin !== url.origin || next.username !== '')
      throw invalid(subject, `the next page is at ${quoted(link)}, another place`);
    if (seen.has(next.href) || seen.size >= MOST_PAGES) throw invalid(subject, 'the pages never end');
  }
  return [...tags];
}

function readPage(text: string, subject: string): readonly string[] {
  let value: { tags?: unknown } | null;
  try {
    value = JSON.parse(text) as typeof value;
  } catch {
    throw invalid(
      subject,
      text.trimStart().startsWith('<') ? 'the answer is a web page' : 'the answer is not JSON',
    );
  }
  const tags = value?.tags ?? [];
  if (!Array.isArray(tags)) throw invalid(subject, 'the answer holds no list');
  // What is no tag cannot be asked for; it is left out rather than shown as one.
  return tags.filter((tag): tag is string => typeof tag === 'string' && isTag(tag));
}

function invalid(subject: string, problem: string): Error {
  return ociError('REGISTRY_ANSWER_INVALID', `${subject}: the list of tags is refused: ${problem}`, {
    hint: 'check whether a proxy answers in place of the registry',
  });
}
