import { createHttpClient, systemClock } from '../../../kernel/http/index.ts';
import { ociError } from '../../errors.ts';
import { formatReference } from '../../names/index.ts';
import type { TransferOptions } from '../../port.ts';
import type { Reference } from '../../types.ts';
import { createAuthorizer } from './auth.ts';
import { deleteBlob, hasBlob } from './blobs.ts';
import { type Caller, createCaller } from './caller.ts';
import { ANSWER_MS, within } from './deadline.ts';
import { apiHost, type Endpoint, endpointsOf } from './endpoints.ts';
import { type Host, makeHost } from './host.ts';
import { deleteManifest, getManifest, headManifest, putManifest } from './manifests.ts';
import { askInTurn, openBlobInTurn, type Place } from './mirrors.ts';
import { listReferrers } from './referrers.ts';
import { RETRY } from './retry.ts';
import { listTags } from './tags.ts';
import { checkReference, type Target } from './target.ts';
import type { Credential, DistributionClient, RegistryClientOptions } from './types.ts';
import { putBlob } from './upload.ts';

/** Slower than a kibibyte a second is not alive. */
const IDLE_BYTES = 64 * 1024;

interface Connection extends AsyncDisposable {
  readonly caller: Caller;
  hostOf(endpoint: Pick<Endpoint, 'host' | 'insecure'>): Host;
}

function connection(options: RegistryClientOptions): Connection {
  const http = createHttpClient({
    userAgent: options.userAgent ?? 'skycap',
    deadlines: { idleBytes: IDLE_BYTES, ...options.deadlines },
    ...(options.proxy === undefined ? {} : { proxy: options.proxy }),
    ...(options.maxConnections === undefined ? {} : { maxConnections: options.maxConnections }),
  });
  const clock = options.clock ?? systemClock;
  const authorizer = createAuthorizer({
    credentials: options.credentials ?? (async () => undefined),
    realms: Object.fromEntries(
      Object.entries(options.realms ?? {}).map(([host, servers]) => [apiHost(host), servers]),
    ),
    clock,
  });
  const hosts = new Map<string, Host>();
  return {
    caller: createCaller({
      authorizer,
      clock,
      random: options.random ?? Math.random,
      retry: { ...RETRY, ...options.retry },
    }),
    hostOf: ({ host: name, insecure }) => {
      const key = `${name} ${insecure}`;
      const known = hosts.get(key);
      if (known !== undefined) return known;
      const host = makeHost(http, name, { insecure, tls: options.tls ?? (() => undefined) });
      hosts.set(key, host);
      return host;
    },
    [Symbol.asyncDispose]: () => http[Symbol.asyncDispose](),
  };
}

/**
 * Asks a registry whether it takes these credentials (an open one takes any).
 *
 * @param host `host[:port]`, `docker.io` for Docker Hub
 * @throws REGISTRY_UNAUTHORIZED, or as every request
 */
export async function checkLogin(
  host: string,
  credential: Credential,
  options: { readonly client: RegistryClientOptions; readonly transfer: TransferOptions },
): Promise<void> {
  const endpoint = endpointsOf(
    { registry: host, repository: 'library/any' },
    options.client.rules ?? [],
  ).write;
  await using opened = connection({ ...options.client, credentials: async () => credential });
  const { response } = await opened.caller.call({
    host: opened.hostOf(endpoint),
    path: '',
    repository: '',
    scopes: [],
    subject: `login to ${host}`,
    options: options.transfer,
    accept: [200],
    lane: 'control',
  });
  await response.discard();
}

/**
 * A client of the distribution protocol (distribution-spec 1.1) for any number of registries.
 *
 * Reads go to mirrors first where rules name some, writes to the registry itself. Every failure is a coded error of
 * the ranges in `errors.ts`, or the reason of the caller's signal.
 *
 * @example
 * await using registry = createRegistryClient({ userAgent: 'example/1' });
 * const { descriptor } = await registry.getManifest(parseReference('alpine:3'), { signal, emit: ignoreEvents });
 */
export function createRegistryClient(options: RegistryClientOptions = {}): DistributionClient {
  const opened = connection(options);
  const { caller, hostOf } = opened;

  function targetOf(reference: Reference, endpoint: Endpoint, transfer: TransferOptions): Target {
    return {
      host: hostOf(endpoint),
      repository: endpoint.repository,
      reference,
      subject: formatReference(reference),
      caller,
      options: transfer,
    };
  }

  function writing(reference: Reference, transfer: TransferOptions): Target {
    checkReference(reference);
    return targetOf(reference, endpointsOf(reference, options.rules ?? []).write, transfer);
  }

  /** Mirrors first, the registry itself last; that one alone where mirrors are not wanted. */
  function places(reference: Reference, transfer: TransferOptions, mirrors = true): readonly Place[] {
    checkReference(reference);
    const { read, write } = endpointsOf(reference, options.rules ?? []);
    return (mirrors ? read : [write]).map((endpoint) => ({
      name: endpoint.host,
      transfer,
      target: () => targetOf(reference, endpoint, transfer),
    }));
  }

  /** The source's name where it really lies; nothing to mount from when that is another host. */
  function mountSource(reference: Reference, repository: string): string | undefined {
    const rules = options.rules ?? [];
    const source = { registry: reference.registry, repository };
    checkReference(source);
    const from = endpointsOf(source, rules).write;
    return from.host === endpointsOf(reference, rules).write.host ? from.repository : undefined;
  }

  /** For what has an answer of bounded size. */
  async function timely<T>(
    reference: Reference,
    transfer: TransferOptions,
    work: (transfer: TransferOptions) => Promise<T>,
  ): Promise<T> {
    const asked = { subject: formatReference(reference), transfer };
    return await within(options.answerMs ?? ANSWER_MS, asked, work);
  }

  const read = <T>(reference: Reference, transfer: TransferOptions, work: (target: Target) => Promise<T>) =>
    timely(reference, transfer, async (timed) => (await askInTurn(places(reference, timed), work)).answer);
  /** Of the registry itself: a mirror's list is not the registry's, and writing goes past mirrors anyway. */
  const ask = <T>(reference: Reference, transfer: TransferOptions, work: (target: Target) => Promise<T>) =>
    timely(reference, transfer, (timed) => work(writing(reference, timed)));

  return {
    getManifest: (reference, transfer) => read(reference, transfer, getManifest),
    headManifest: (reference, { mirrors, ...transfer }) =>
      (mirrors === false ? ask : read)(reference, transfer, headManifest),
    putManifest: (reference, manifest, transfer) =>
      ask(reference, transfer, (target) => putManifest(target, manifest)),
    tagManifest: (reference, tag, transfer) =>
      ask(reference, transfer, async (target) => {
        const manifest = await getManifest(target);
        const named = { ...reference, tag, digest: manifest.descriptor.digest };
        checkReference(named);
        await putManifest({ ...target, reference: named }, manifest, { isRetag: true });
      }),
    deleteManifest: (reference, transfer) => ask(reference, transfer, deleteManifest),
    deleteBlob: (reference, digest, transfer) =>
      ask(reference, transfer, (target) => deleteBlob(target, digest)),
    getBlob: async (reference, blob, offset, { mirrors, lend = false, ...transfer }) =>
      await openBlobInTurn(
        places(reference, transfer, mirrors).map((place) => ({
          ...place,
          target: () => ({ ...place.target(), lend }),
        })),
        blob,
        offset,
      ),
    hasBlob: (reference, digest, transfer) => ask(reference, transfer, (target) => hasBlob(target, digest)),
    putBlob: async (reference, blob, source, { mountFrom, ...transfer }) => {
      const target = writing(reference, transfer);
      const from = mountFrom === undefined ? undefined : mountSource(reference, mountFrom);
      return await putBlob(target, blob, source, { mountFrom: from, chunkSize: options.chunkSize });
    },
    listTags: (reference, transfer) => ask(reference, transfer, listTags),
    listReferrers: (reference, { artifactType, ...transfer }) =>
      ask(reference, transfer, async (target) => {
        if (reference.digest === undefined) {
          throw ociError('DIGEST_INVALID', `${target.subject}: referrers are asked for by digest`, {
            hint: 'resolve the tag first',
          });
        }
        return await listReferrers(target, reference.digest, artifactType);
      }),
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  };
}
