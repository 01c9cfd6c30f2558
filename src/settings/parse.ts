import { type DocNode, didYouMean, type ParsedDocument, type Problem } from '../document/index.ts';
import { hostMap, registryRule } from './parse-registries.ts';
import { Reader } from './reader.ts';
import type { Consent, CredentialSource, RegistryHost, RegistryRule } from './types.ts';

/** What one configuration file says. */
export interface ConfigFile {
  readonly file: string;
  readonly registries: readonly RegistryRule[];
  readonly hosts: Readonly<Record<string, RegistryHost>>;
  readonly consents: readonly Consent[];
  readonly credentials: Readonly<Record<string, CredentialSource>>;
  readonly engine?: string;
  readonly namespace?: string;
  readonly stateDirectory?: string;
  readonly storeDirectory?: string;
  readonly cacheDirectory?: string;
  readonly runtimeDirectory?: string;
  readonly dockerHost?: string;
}

const TOP = [
  'registries',
  'hosts',
  'engine',
  'engines',
  'consents',
  'credentials',
  'state',
  'store',
  'cache',
  'runtime',
  'namespace',
];
const KINDS: readonly Consent['kind'][] = ['docker', 'host-network', 'privileged'];
const SOURCES = ['env', 'path', 'command', 'value'] as const;
const NAMESPACE = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** Meaning of a parsed file; every problem is reported, none stops the reading. */
export function parseConfig(document: ParsedDocument): {
  readonly config: ConfigFile;
  readonly problems: readonly Problem[];
} {
  const reader = new Reader(document);
  const top =
    document.root === undefined ? [] : reader.map(document.root, 'the configuration', [...TOP, 'policy']);
  const values: Record<string, unknown> = {};
  let registries: readonly RegistryRule[] = [];
  let hosts: Readonly<Record<string, RegistryHost>> = {};
  let consents: readonly Consent[] = [];
  let credentials: Readonly<Record<string, CredentialSource>> = {};
  for (const { key, keySpan, value } of top) {
    if (key === 'registries')
      registries = reader.list(value, key).flatMap((item) => registryRule(reader, item));
    else if (key === 'hosts') hosts = hostMap(reader, value);
    else if (key === 'consents') consents = reader.list(value, key).flatMap((item) => consent(reader, item));
    else if (key === 'credentials') credentials = credentialMap(reader, value);
    else if (key === 'engine') values.engine = reader.text(value, key);
    else if (key === 'namespace') values.namespace = namespaceOf(reader, value);
    else if (key === 'engines') values.dockerHost = dockerHost(reader, value);
    else if (key === 'policy') {
      reader.wrong(
        keySpan,
        'policy-unsupported',
        '`policy` is not enforced by this version',
        'remove it; it comes with signature verification',
      );
    } else values[`${key}Directory`] = directory(reader, value, key);
  }
  const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
  return {
    config: { file: document.file, registries, hosts, consents, credentials, ...given },
    problems: [...document.problems, ...reader.problems],
  };
}

function consent(reader: Reader, node: DocNode): Consent[] {
  const entries = reader.map(node, 'a consent', ['kind', 'bundle', 'digest', 'image', 'step']);
  const found: Partial<Record<string, string>> = {};
  for (const { key, value } of entries) {
    const text = reader.text(value, key);
    if (text !== undefined) found[key] = text;
  }
  const kind = KINDS.find((known) => known === found.kind);
  if (kind === undefined) {
    const at = entries.find(({ key }) => key === 'kind')?.value.span ?? node.span;
    const meant = didYouMean(found.kind ?? '', KINDS);
    reader.wrong(
      at,
      'consent-kind',
      `a consent's \`kind\` is one of ${KINDS.join(', ')}`,
      meant === undefined ? undefined : `did you mean ${meant}?`,
    );
    return [];
  }
  const { bundle, digest, image, step } = found;
  if (bundle === undefined && digest === undefined) {
    reader.wrong(
      node.span,
      'consent-scope',
      'a consent must name its bundle',
      'add `bundle:` (repository, or absolute folder of a local bundle) or `digest:`',
    );
    return [];
  }
  if (bundle !== undefined && !bundle.includes('/')) {
    const at = entries.find(({ key }) => key === 'bundle')?.value.span ?? node.span;
    reader.wrong(
      at,
      'consent-scope',
      `${JSON.stringify(bundle)} is only what a bundle calls itself`,
      'name its repository (registry.example/acme/app), its absolute folder, or its digest',
    );
    return [];
  }
  if (digest !== undefined && !/^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$/.test(digest)) {
    reader.wrong(
      node.span,
      'consent-scope',
      `${JSON.stringify(digest)} is no digest`,
      'write sha256: and 64 hexadecimal digits',
    );
    return [];
  }
  if (step === undefined) {
    reader.wrong(
      node.span,
      'consent-scope',
      'a consent must name its step',
      'add `step:` with the id of the step, or "*" for all of them',
    );
    return [];
  }
  return [
    {
      kind,
      step,
      ...(bundle === undefined ? {} : { bundle }),
      ...(digest === undefined ? {} : { digest }),
      ...(image === undefined ? {} : { image }),
    },
  ];
}

function credentialMap(reader: Reader, node: DocNode): Readonly<Record<string, CredentialSource>> {
  const found = new Map<string, CredentialSource>();
  for (const { key, value } of reader.map(node, '`credentials`')) {
    const entries = reader.map(value, `credential ${key}`, SOURCES);
    const [first, ...others] = entries;
    if (first === undefined || others.length > 0) {
      if (value.kind === 'map')
        reader.wrong(
          value.span,
          'credential-source',
          `credential ${key} needs exactly one of ${SOURCES.join(', ')}`,
        );
      continue;
    }
    // The text itself must never show up in a message: it may be the value.
    if (first.value.kind !== 'scalar' || first.value.value === null) {
      reader.wrong(
        first.keySpan,
        'credential-source',
        `\`${first.key}\` of credential ${key} must be a string`,
      );
      continue;
    }
    const text = first.value.text;
    if (first.key === 'env') found.set(key, { kind: 'env', name: text });
    if (first.key === 'command') found.set(key, { kind: 'command', command: text });
    if (first.key === 'value') found.set(key, { kind: 'value', value: text });
    if (first.key !== 'path') continue;
    if (text.startsWith('/') || text.startsWith('~/')) found.set(key, { kind: 'path', path: text });
    else
      reader.wrong(
        first.value.span,
        'credential-source',
        `\`path\` of credential ${key} must be absolute`,
        'begin it with / or ~/',
      );
  }
  return Object.fromEntries(found);
}

function directory(reader: Reader, node: DocNode, what: string): string | undefined {
  for (const { value } of reader.map(node, `\`${what}\``, ['directory'])) {
    const text = reader.text(value, `${what}.directory`);
    if (text === undefined) return undefined;
    if (text.startsWith('/') || text.startsWith('~/')) return text;
    return reader.wrong(
      value.span,
      'relative-path',
      `\`${what}.directory\` must be absolute`,
      'begin it with / or ~/',
    );
  }
  return undefined;
}

function dockerHost(reader: Reader, node: DocNode): string | undefined {
  for (const { value } of reader.map(node, '`engines`', ['docker'])) {
    for (const entry of reader.map(value, '`engines.docker`', ['host']))
      return reader.text(entry.value, 'engines.docker.host');
  }
  return undefined;
}

function namespaceOf(reader: Reader, node: DocNode): string | undefined {
  const text = reader.text(node, 'namespace');
  if (text === undefined || NAMESPACE.test(text)) return text;
  return reader.wrong(
    node.span,
    'namespace',
    `${JSON.stringify(text)} is no namespace`,
    'use a-z, 0-9 and -, at most 63 characters',
  );
}

export function isNamespace(text: string): boolean {
  return NAMESPACE.test(text);
}
