import { ociError } from '../errors.ts';
import type { Digest, Reference } from '../types.ts';
import { isDigest } from './digest.ts';
import { quoted } from './quoted.ts';

const DEFAULT_REGISTRY = 'docker.io';
const LEGACY_DEFAULT = 'index.docker.io';
const LONGEST_NAME = 255;

const COMPONENT = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
const HOST_LABEL = /^(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])$/;
const IDENTIFIER = /^[a-f0-9]{64}$/;

/** Tag of the distribution-spec, "Pulling manifests". */
export function isTag(text: string): boolean {
  return TAG.test(text);
}

/** The path of a repository: lower-case components (distribution-spec, `<name>`). */
export function isRepositoryPath(text: string): boolean {
  return text.length <= LONGEST_NAME && text.split('/').every((component) => COMPONENT.test(component));
}

/** `host[:port]` with a name, an IPv4 address or an IPv6 address in brackets. */
export function isRegistryHost(text: string): boolean {
  const match = /^(\[[^\]]*\]|[^:]*)(?::([0-9]+))?$/.exec(text);
  if (match === null) return false;
  const [, host = '', port] = match;
  if (port !== undefined && !(port.length <= 5 && Number(port) > 0 && Number(port) < 65536)) return false;
  if (host.startsWith('[')) return isIpv6(host.slice(1, -1));
  return host.split('.').every((label) => HOST_LABEL.test(label));
}

function isIpv6(text: string): boolean {
  if (!/^[0-9A-Fa-f:]{2,39}$/.test(text)) return false;
  const halves = text.split('::');
  if (halves.length > 2) return false;
  const groups = halves.flatMap((half) => (half === '' ? [] : half.split(':')));
  if (!groups.every((group) => /^[0-9A-Fa-f]{1,4}$/.test(group))) return false;
  return halves.length === 2 ? groups.length < 8 : groups.length === 8;
}

/**
 * Reads what people write: `alpine`, `localhost:5000/a/b:1`, `ghcr.io/a/b:1@sha256:…`. Docker's defaults are filled
 * in; no tag is made up (see `withDefaultTag`). Host names become lower case, so that no spelling gets past a rule.
 *
 * @throws REFERENCE_INVALID with the spelling as it was written
 * @see the grammar of github.com/distribution/reference; ours refuses a little more (ports out of range, malformed
 * IPv6 addresses, digests of unregistered algorithms, hosts that only capitals tell from a folder) and accepts nothing
 * that it refuses
 */
export function parseReference(text: string): Reference {
  const at = text.indexOf('@');
  const digest = at === -1 ? undefined : text.slice(at + 1);
  const named = at === -1 ? text : text.slice(0, at);
  if (digest !== undefined && !isDigest(digest)) throw invalid(text, digestProblem(digest));
  const { name, tag } = splitTag(named);
  if (tag !== undefined && !isTag(tag)) throw invalid(text, `the tag ${quoted(tag)} is malformed`);
  if (name === '') throw invalid(text, 'the name is empty');
  if (IDENTIFIER.test(name)) throw invalid(text, '64 hex digits are an image id, not a name');
  const { registry, repository } = splitName(name);
  checkName(text, registry, repository);
  return {
    registry: registry.toLowerCase(),
    repository,
    ...(tag === undefined ? {} : { tag }),
    ...(digest === undefined ? {} : { digest: digest as Digest }),
  };
}

function splitTag(named: string): { readonly name: string; readonly tag: string | undefined } {
  const colon = named.lastIndexOf(':');
  // A colon before the last slash belongs to a port or an IPv6 address.
  if (colon <= named.lastIndexOf('/')) return { name: named, tag: undefined };
  return { name: named.slice(0, colon), tag: named.slice(colon + 1) };
}

/** True for a first component that means a host and not the first folder of a path on Docker Hub. */
function looksLikeHost(component: string): boolean {
  return /[.:]/.test(component) || component === 'localhost' || component.toLowerCase() !== component;
}

function splitName(name: string): { readonly registry: string; readonly repository: string } {
  const slash = name.indexOf('/');
  const first = name.slice(0, Math.max(slash, 0));
  if (slash === -1 || !looksLikeHost(first))
    return { registry: DEFAULT_REGISTRY, repository: inLibrary(name) };
  const rest = name.slice(slash + 1);
  const host = first.toLowerCase();
  if (host !== DEFAULT_REGISTRY && host !== LEGACY_DEFAULT) return { registry: first, repository: rest };
  return { registry: DEFAULT_REGISTRY, repository: inLibrary(rest) };
}

function inLibrary(path: string): string {
  return path.includes('/') ? path : `library/${path}`;
}

function checkName(text: string, registry: string, repository: string): void {
  if (!isRegistryHost(registry)) throw invalid(text, `the registry ${quoted(registry)} is no host[:port]`);
  // In lower case, as every rule has it, such a host would be read as a folder on Docker Hub.
  if (!looksLikeHost(registry.toLowerCase()))
    throw invalid(
      text,
      `the registry ${quoted(registry)} has neither a dot nor a port`,
      `${registry}:443/${repository}`,
    );
  if (/[A-Z]/.test(repository))
    throw invalid(text, 'the repository must be lower case', `${registry}/${repository.toLowerCase()}`);
  if (!isRepositoryPath(repository)) throw invalid(text, `the repository ${quoted(repository)} is malformed`);
  const length = registry.length + 1 + repository.length;
  if (length > LONGEST_NAME)
    throw invalid(text, `the name has ${length} characters, at most ${LONGEST_NAME} are allowed`);
}

function digestProblem(digest: string): string {
  const algorithm = digest.slice(0, Math.max(digest.indexOf(':'), 0));
  if (algorithm === 'sha256' || algorithm === 'sha512')
    return `the digest after @ is not ${algorithm} in lower-case hex`;
  return 'what follows @ is no sha256 or sha512 digest';
}

function invalid(text: string, problem: string, suggestion?: string): Error {
  const form = 'write [host[:port]/]repository[:tag][@digest]';
  return ociError('REFERENCE_INVALID', `${quoted(text)} is not an image reference: ${problem}`, {
    hint: suggestion === undefined ? form : `${form}, here perhaps ${quoted(suggestion)}`,
  });
}

/** `registry/repository`, e.g. `docker.io/library/alpine`. */
export function repositoryOf(reference: Reference): string {
  return `${reference.registry}/${reference.repository}`;
}

function suffixOf(reference: Reference): string {
  const tag = reference.tag === undefined ? '' : `:${reference.tag}`;
  return reference.digest === undefined ? tag : `${tag}@${reference.digest}`;
}

/** The full form: `docker.io/library/alpine:3@sha256:…`. */
export function formatReference(reference: Reference): string {
  return `${repositoryOf(reference)}${suffixOf(reference)}`;
}

/** The form people write; it parses to the same reference. */
export function familiarReference(reference: Reference): string {
  if (reference.registry !== DEFAULT_REGISTRY) return formatReference(reference);
  const short = reference.repository.replace(/^library\/(?=[^/]+$)/, '');
  const first = short.split('/')[0] as string;
  const misread = (short.includes('/') && looksLikeHost(first)) || IDENTIFIER.test(short);
  return misread ? formatReference(reference) : `${short}${suffixOf(reference)}`;
}

/** `latest` where neither tag nor digest is given, as every other tool does. */
export function withDefaultTag(reference: Reference): Reference {
  if (reference.tag !== undefined || reference.digest !== undefined) return reference;
  return { ...reference, tag: 'latest' };
}
