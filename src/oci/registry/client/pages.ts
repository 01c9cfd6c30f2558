import type { HttpResponse } from '../../../kernel/http/index.ts';
import { ociError } from '../../errors.ts';
import { quoted } from '../../names/index.ts';
import { nextLink } from './link.ts';
import { pullScope, type Target } from './target.ts';

/** Bytes of one page, and of all pages together. */
const LARGEST_PAGE = 8 * 1024 * 1024;
const LARGEST_LIST = 64 * 1024 * 1024;
const MOST_PAGES = 10_000;

export interface Page {
  readonly response: HttpResponse;
  readonly bytes: Uint8Array;
}

export interface PageRequest {
  /** Below `/v2/`. */
  readonly path: string;
  /** For messages: `the list of tags`. */
  readonly what: string;
  readonly mediaType: string;
  /** Statuses beside 200 that are an answer; such an answer is the last. */
  readonly accept: readonly number[];
}

/**
 * A list in all its pages. `Link` (RFC 8288, `rel="next"`) is followed as it stands: its query is the registry's own.
 * It may not lead elsewhere, nor to a page that was read already.
 *
 * @throws REGISTRY_ANSWER_INVALID for such a link, REGISTRY_ANSWER_TOO_LARGE
 */
export async function* pagesOf(target: Target, request: PageRequest): AsyncGenerator<Page, void> {
  const { host, repository, subject, options, caller } = target;
  const seen = new Set<string>();
  let left = LARGEST_LIST;
  let next: string | URL = request.path;
  for (;;) {
    const answer: { response: HttpResponse; url: URL; bytes: Uint8Array } = await caller.call({
      host,
      repository,
      path: next,
      subject,
      options,
      scopes: [pullScope(repository)],
      accept: [200, ...request.accept],
      collect: Math.min(LARGEST_PAGE, left),
      headers: { accept: request.mediaType },
      lane: 'control',
    });
    const { response, url, bytes } = answer;
    left -= bytes.length;
    yield { response, bytes };
    if (response.status !== 200) return;
    seen.add(typeof next === 'string' ? url.href : next.href);
    const link = nextLink(response.values('link'));
    if (link === undefined) return;
    next = following(link, url, { target, what: request.what });
    if (seen.has(next.href) || seen.size >= MOST_PAGES)
      throw listInvalid(subject, request.what, 'the pages never end');
  }
}

function following(link: string, url: URL, where: { readonly target: Target; readonly what: string }): URL {
  const next = URL.canParse(link, url.href) ? new URL(link, url) : undefined;
  // Registries behind a TLS proxy often know only the http side of their own address.
  if (url.protocol === 'https:' && next?.protocol === 'http:' && next.hostname === url.hostname) {
    next.protocol = 'https:';
    next.port = url.port;
  }
  if (next === undefined || next.origin !== url.origin || next.username !== '' || next.password !== '') {
    const problem = `the next page is at ${quoted(link)}, another place`;
    throw listInvalid(where.target.subject, where.what, problem);
  }
  return next;
}

export function listInvalid(subject: string, what: string, problem: string): Error {
  return ociError('REGISTRY_ANSWER_INVALID', `${subject}: ${what} is refused: ${problem}`, {
    hint: 'check whether a proxy answers in place of the registry',
  });
}
