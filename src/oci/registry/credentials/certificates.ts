import { X509Certificate } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSecureContext, getCACertificates } from 'node:tls';
import type { TlsSettings } from '../../../kernel/http/index.ts';
import type { RegistryHost } from '../../../settings/index.ts';
import { ociError } from '../../errors.ts';
import { DOCKER_HUB_KEY, hostNames, serverName } from './auth-file.ts';
import type { CredentialsEnvironment } from './types.ts';

const LARGEST_FILE = 4 * 1024 * 1024;
const MACHINE_FOLDERS = ['/etc/containers/certs.d', '/etc/docker/certs.d'];

export interface CertificatesOptions {
  /** What the configuration says, by `host[:port]`; stands in place of any folder. */
  readonly hosts: Readonly<Record<string, RegistryHost>>;
  readonly environment: CredentialsEnvironment;
  /** Default: those of containers and of Docker below /etc. */
  readonly machineFolders?: readonly string[];
}

/**
 * Authorities and client certificates of registries: from the configuration, else from the first folder that there is
 * for the host, `~/.config/containers/certs.d/<host>` before the machine's (containers-certs.d(5); Docker's "Verify
 * repository client with certificates"): `*.crt` are authorities, `NAME.cert` with `NAME.key` the client's certificate.
 * Authorities count beside those that are trusted anyway.
 *
 * @returns undefined for a host that nothing is said of
 * @throws REGISTRY_TLS (from the function returned) for what cannot be read or does not fit together
 */
export function createTlsLookup(options: CertificatesOptions): (host: string) => TlsSettings | undefined {
  const known = new Map<string, TlsSettings | undefined>();
  return (host) => {
    if (!known.has(host)) known.set(host, lookUp(host, options));
    return known.get(host);
  };
}

interface Files {
  readonly ca: readonly string[];
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

function lookUp(host: string, options: CertificatesOptions): TlsSettings | undefined {
  const files = configured(host, options) ?? inFolders(host, options);
  if (files === undefined) return undefined;
  const { cert, key } = files;
  const read = (path: string): string => readPem(host, path);
  const pair = {
    ...(cert === undefined ? {} : { cert: read(cert) }),
    ...(key === undefined ? {} : { key: read(key) }),
  };
  try {
    createSecureContext(pair);
  } catch (error) {
    throw refused(host, `${cert} and ${key} are not a PEM certificate and its key`, error);
  }
  if (files.ca.length === 0) return cert === undefined ? undefined : pair;
  // Node would take what is given in place of the usual authorities.
  return {
    ...pair,
    ca: [...getCACertificates('default'), ...files.ca.map((path) => readAuthority(host, path))],
  };
}

/** Node passes over what is no certificate without a word. */
function readAuthority(host: string, path: string): string {
  const text = readPem(host, path);
  const blocks = text.match(
    /-----BEGIN (?:TRUSTED )?CERTIFICATE-----[^-]*-----END (?:TRUSTED )?CERTIFICATE-----/g,
  );
  try {
    for (const block of blocks ?? ['']) new X509Certificate(block);
  } catch (error) {
    throw refused(host, `${path} holds no certificate in PEM form`, error);
  }
  return text;
}

function configured(host: string, { hosts }: CertificatesOptions): Files | undefined {
  const names = hostNames(host);
  const entry = Object.entries(hosts).find(([name]) => names.includes(name))?.[1];
  if (entry === undefined || (entry.ca ?? entry.certificate) === undefined) return undefined;
  return { ca: entry.ca === undefined ? [] : [entry.ca], cert: entry.certificate, key: entry.key };
}

function inFolders(host: string, options: CertificatesOptions): Files | undefined {
  const folders = [
    join(options.environment.home, '.config/containers/certs.d'),
    ...(options.machineFolders ?? MACHINE_FOLDERS),
  ];
  const names = serverName(host) === DOCKER_HUB_KEY ? hostNames(host) : [host];
  for (const folder of folders.flatMap((parent) => names.map((name) => join(parent, name)))) {
    const entries = namesIn(host, folder);
    if (entries !== undefined) return filesOf(host, folder, entries);
  }
  return undefined;
}

function namesIn(host: string, folder: string): readonly string[] | undefined {
  try {
    return readdirSync(folder).sort();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw refused(host, `${folder} cannot be read (${code ?? 'unknown reason'})`, error);
  }
}

function filesOf(host: string, folder: string, entries: readonly string[]): Files {
  const ca = entries.filter((name) => name.endsWith('.crt')).map((name) => join(folder, name));
  const pairs = entries
    .filter((name) => name.endsWith('.cert'))
    .map((name) => name.slice(0, -'.cert'.length));
  for (const name of pairs) {
    if (entries.includes(`${name}.key`)) continue;
    throw refused(host, `${join(folder, name)}.cert has no ${name}.key beside it; authorities end in .crt`);
  }
  const lone = entries.find(
    (name) => name.endsWith('.key') && !pairs.includes(name.slice(0, -'.key'.length)),
  );
  if (lone !== undefined) throw refused(host, `${join(folder, lone)} has no certificate beside it`);
  const first = pairs[0];
  if (first === undefined) return { ca };
  return { ca, cert: join(folder, `${first}.cert`), key: join(folder, `${first}.key`) };
}

function readPem(host: string, path: string): string {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw refused(host, `${path} cannot be read (${code ?? 'unknown reason'})`, error);
  }
  if (bytes.length > LARGEST_FILE) throw refused(host, `${path} is too large`);
  return bytes.toString('latin1');
}

function refused(host: string, problem: string, cause?: unknown): Error {
  return ociError('REGISTRY_TLS', `the certificates for ${host} are refused: ${problem}`, {
    hint: 'correct the files, or what the configuration says under hosts',
    ...(cause === undefined ? {} : { cause }),
  });
}
