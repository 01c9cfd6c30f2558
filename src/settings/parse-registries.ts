import type { DocNode } from '../document/index.ts';
import type { Reader } from './reader.ts';
import type { RegistryHost, RegistryMirror, RegistryRule } from './types.ts';

/** What a mirror is asked for (containers-registries.conf(5), "pull-from-mirror"). */
export const PULL_FROM_MIRROR = ['all', 'digest-only', 'tag-only'] as const;

export function registryRule(reader: Reader, node: DocNode): RegistryRule[] {
  const entries = reader.map(node, 'a registry', ['prefix', 'location', 'mirrors', 'insecure', 'blocked']);
  let prefix: string | undefined;
  let location: string | undefined;
  let mirrors: readonly RegistryMirror[] = [];
  let insecure = false;
  let blocked = false;
  for (const { key, value } of entries) {
    if (key === 'prefix') prefix = address(reader, value, { key, wildcard: true });
    if (key === 'location') location = address(reader, value, { key, wildcard: false });
    if (key === 'mirrors') mirrors = reader.list(value, key).flatMap((item) => mirror(reader, item));
    if (key === 'insecure') insecure = reader.flag(value, key);
    if (key === 'blocked') blocked = reader.flag(value, key);
  }
  // As in registries.conf: without a prefix the location is the prefix.
  const of = prefix ?? location;
  if (of !== undefined)
    return [{ prefix: of, ...(location === undefined ? {} : { location }), mirrors, insecure, blocked }];
  if (!entries.some(({ key }) => key === 'prefix' || key === 'location'))
    reader.wrong(node.span, 'missing-key', 'a registry needs `prefix` or `location`');
  return [];
}

function mirror(reader: Reader, node: DocNode): RegistryMirror[] {
  if (node.kind === 'scalar') {
    const location = address(reader, node, { key: 'mirrors', wildcard: false });
    return location === undefined ? [] : [{ location, insecure: false }];
  }
  const entries = reader.map(node, 'a mirror', ['location', 'insecure', 'pull-from-mirror']);
  let location: string | undefined;
  let insecure = false;
  let pullFromMirror: RegistryMirror['pullFromMirror'];
  for (const { key, value } of entries) {
    if (key === 'location') location = address(reader, value, { key, wildcard: false });
    if (key === 'insecure') insecure = reader.flag(value, key);
    if (key === 'pull-from-mirror') pullFromMirror = pullKind(reader, value);
  }
  if (!entries.some(({ key }) => key === 'location'))
    reader.wrong(node.span, 'missing-key', 'a mirror needs `location`');
  if (location === undefined) return [];
  return [{ location, insecure, ...(pullFromMirror === undefined ? {} : { pullFromMirror }) }];
}

function pullKind(reader: Reader, node: DocNode): RegistryMirror['pullFromMirror'] {
  const text = reader.text(node, 'pull-from-mirror');
  const kind = PULL_FROM_MIRROR.find((known) => known === text);
  if (kind !== undefined || text === undefined) return kind;
  return reader.wrong(
    node.span,
    'pull-from-mirror',
    `\`pull-from-mirror\` is one of ${PULL_FROM_MIRROR.join(', ')}`,
  );
}

const HOST = /^([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])(:[0-9]{1,5})?$/i;

/** `hosts`: how one registry proves who it is, and who we are. */
export function hostMap(reader: Reader, node: DocNode): Readonly<Record<string, RegistryHost>> {
  const found = new Map<string, RegistryHost>();
  for (const { key, keySpan, value } of reader.map(node, '`hosts`')) {
    if (HOST.test(key)) found.set(key.toLowerCase(), registryHost(reader, key, value));
    else
      reader.wrong(
        keySpan,
        'registry-address',
        `${JSON.stringify(key)} is no host`,
        'write host[:port] without a path',
      );
  }
  return Object.fromEntries(found);
}

function registryHost(reader: Reader, host: string, node: DocNode): RegistryHost {
  const entries = reader.map(node, `host ${host}`, ['ca', 'certificate', 'key', 'realms']);
  const given: { -readonly [Key in keyof RegistryHost]: RegistryHost[Key] } = {};
  for (const { key, value } of entries) {
    if (key === 'realms') given.realms = reader.list(value, key).flatMap((item) => realm(reader, item));
    if (key !== 'ca' && key !== 'certificate' && key !== 'key') continue;
    const path = reader.text(value, key);
    if (path === undefined) continue;
    if (path.startsWith('/') || path.startsWith('~/')) given[key] = path;
    else
      reader.wrong(
        value.span,
        'relative-path',
        `\`${key}\` of host ${host} must be absolute`,
        'begin it with / or ~/',
      );
  }
  const has = (name: string): boolean => entries.some(({ key }) => key === name);
  if (has('certificate') !== has('key')) {
    reader.wrong(node.span, 'missing-key', `host ${host} needs both \`certificate\` and \`key\`, or neither`);
  }
  return given;
}

function realm(reader: Reader, node: DocNode): string[] {
  const text = reader.text(node, 'realms');
  if (text === undefined) return [];
  if (HOST.test(text)) return [text.toLowerCase()];
  reader.wrong(
    node.span,
    'registry-address',
    `${JSON.stringify(text)} is no host`,
    'write the host[:port] of the token server, without https:// and without a path',
  );
  return [];
}

function address(
  reader: Reader,
  node: DocNode,
  of: { readonly key: string; readonly wildcard: boolean },
): string | undefined {
  const text = reader.text(node, of.key);
  if (text === undefined) return undefined;
  if (text.includes('://')) {
    return reader.wrong(
      node.span,
      'registry-address',
      `\`${of.key}\` is a registry's name, not a URL`,
      `write ${text.replace(/^.*:\/\//, '')}`,
    );
  }
  if (isAddress(text, of.wildcard)) return text;
  return reader.wrong(
    node.span,
    'registry-address',
    `${JSON.stringify(text)} is no registry address`,
    of.wildcard ? 'write host[:port][/path] or *.host' : 'write host[:port][/path]',
  );
}

const PLAIN =
  /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*$|^\[[0-9a-fA-F:]+\](:[0-9]{1,5})?(\/[a-z0-9._/-]+)?$/;

/** `host[:port][/path]`, and where a wildcard may stand `*.host`. */
export function isAddress(text: string, wildcard: boolean): boolean {
  const host = wildcard && text.startsWith('*.') ? text.slice(2) : text;
  return PLAIN.test(host) && !(host !== text && /[/:]/.test(host));
}
