import { ociError } from '../../errors.ts';
import { quoted } from '../../names/index.ts';
import type { Digest } from '../../types.ts';
import { blobPath, pullScope, type Target } from './target.ts';

/** distribution-spec, "Checking if content exists in the registry". */
export async function hasBlob(target: Target, digest: Digest): Promise<boolean> {
  const { host, repository, subject, options, caller } = target;
  const path = blobPath(target, digest);
  const { response, url } = await caller.call({
    method: 'HEAD',
    host,
    repository,
    path,
    subject: `${subject}, blob ${digest}`,
    options,
    scopes: [pullScope(repository)],
    // Storage behind a redirect may refuse HEAD on an address signed for GET: then it is not known to be there.
    accept: [200, 404, 405, 403, 400],
    lane: 'control',
  });
  await response.discard();
  if (response.status === 200) return true;
  const elsewhere = url.origin !== (await host.origin(options.signal)).origin;
  if (response.status === 404 || elsewhere) return false;
  if (response.status !== 405) {
    throw ociError(
      response.status === 403 ? 'REGISTRY_FORBIDDEN' : 'REGISTRY_REFUSED',
      `${subject}: ${host.name} does not say whether it has ${digest} (status ${response.status})`,
      {
        hint: 'ask for access to the repository, or log in as someone who has it',
      },
    );
  }
  return await probe(target, digest);
}

/** For registries without HEAD. */
async function probe(target: Target, digest: Digest): Promise<boolean> {
  const { host, repository, subject, options, caller } = target;
  const { response } = await caller.call({
    host,
    repository,
    path: blobPath(target, digest),
    subject,
    options,
    scopes: [pullScope(repository)],
    accept: [200, 206, 404],
    headers: { range: 'bytes=0-0' },
    lane: 'control',
  });
  await response.discard();
  return response.status !== 404;
}

/** distribution-spec, "Deleting Blobs". */
export async function deleteBlob(target: Target, digest: Digest): Promise<void> {
  await remove(target, { path: blobPath(target, digest), subject: `${target.subject}, blob ${digest}` });
}

/**
 * DELETE of what is named by digest or tag.
 *
 * @throws REGISTRY_UNSUPPORTED where the registry does not delete such a thing, REGISTRY_NOT_FOUND
 */
export async function remove(
  target: Target,
  what: { readonly path: string; readonly subject: string },
): Promise<void> {
  const { host, repository, options, caller } = target;
  const { response } = await caller.call({
    method: 'DELETE',
    host,
    repository,
    path: what.path,
    subject: what.subject,
    options,
    scopes: [`repository:${repository}:pull,delete`],
    accept: [200, 202, 204, 400, 405],
    lane: 'control',
  });
  if (response.status < 300) return await response.discard();
  const text = await response.text(64 * 1024).catch(() => '');
  const said = text === '' ? '' : `, ${quoted(text)}`;
  throw ociError(
    'REGISTRY_UNSUPPORTED',
    `${what.subject}: ${host.name} does not delete this (status ${response.status}${said})`,
    { hint: 'many registries delete by digest only, or only when deletion is switched on' },
  );
}
