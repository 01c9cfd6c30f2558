import { chmod, chown } from 'node:fs/promises';
import { isSkycapError } from '../../kernel/index.ts';
import type { PinnedImage } from '../../oci/index.ts';
import type { ContainerFile, ContainerRun } from '../port.ts';
import { isBelow } from '../run-check.ts';
import type { DockerApi } from './api.ts';
import { type BodyContext, type containerBody, volumeOf } from './container-body.ts';
import type { DaemonFacts } from './daemon.ts';
import { HELPER_PATH, helperBinary } from './helper/index.ts';
import type { Holder } from './holder.ts';
import { type Placement, WORKSPACE_PATH } from './placement.ts';
import { type ArchiveItem, directoryItem, fileItem, type Owner, packItems } from './tar.ts';

const ROOT: Owner = { uid: 0, gid: 0 };

export interface PrepareContext {
  readonly api: DockerApi;
  readonly holder: Holder;
  readonly facts: DaemonFacts;
  readonly runId: string;
  readonly installationId: string;
}

/** Brings the image again where someone pruned the daemon's images after the session was opened. */
export async function createContainer(
  context: Pick<PrepareContext, 'api'> & { ensure(image: PinnedImage): Promise<string> },
  name: string,
  of: { readonly body: ReturnType<typeof containerBody>; readonly image: PinnedImage },
): Promise<void> {
  const create = async (): Promise<void> => {
    await context.api.run({
      method: 'POST',
      path: '/containers/create',
      query: { name },
      json: of.body,
      doing: 'create a container',
    });
  };
  try {
    await create();
  } catch (error) {
    if (!isSkycapError(error, 'ENGINE_DOCKER_FAILED') || error.details?.status !== 404) throw error;
    await context.ensure(of.image);
    await create();
  }
}

/** Gives what a step shares with others to its user, and makes its working directory below the workspace. */
export async function giveToUser(context: PrepareContext, run: ContainerRun, owner: Owner): Promise<void> {
  const { holder, facts, runId, api } = context;
  const workspace = run.workspace !== 'none';
  const home = run.home === 'shared';
  if (workspace || home) await holder.give(owner, { workspace, home });
  for (const wanted of run.volumes) {
    const { name, labels } = volumeOf(wanted, context);
    await holder.giveVolume(name, owner, { runId, helperId: facts.helperId, labels });
  }
  if (!workspace || !isBelow(run.workingDir, WORKSPACE_PATH) || run.workingDir === WORKSPACE_PATH) return;
  const missing = await missingFolders(api, holder.name, {
    base: holder.path,
    folder: run.workingDir.slice(WORKSPACE_PATH.length + 1),
  });
  if (missing.length === 0) return;
  const items = missing.map((path) => directoryItem(path, 0o755, owner));
  await api.putArchive(holder.name, holder.path, packItems(items));
}

/**
 * Mount points below the workspace must exist; the runtime would make them as root, and through a read-only workspace
 * not at all. The answer names those made here, to be taken away after the step.
 */
export async function makePlaceholders(
  { api, holder }: PrepareContext,
  run: ContainerRun,
  placement: Placement,
): Promise<readonly string[]> {
  if (run.workspace === 'none') return [];
  const made = new Set<string>();
  const items: ArchiveItem[] = [];
  for (const file of [...placement.mounted, ...placement.shared]) {
    if (!isBelow(file.path, WORKSPACE_PATH)) continue;
    const path = file.path.slice(WORKSPACE_PATH.length + 1);
    const folder = path.slice(0, Math.max(0, path.lastIndexOf('/')));
    for (const missing of await missingFolders(api, holder.name, { base: holder.path, folder })) {
      if (made.has(missing)) continue;
      made.add(missing);
      items.push(directoryItem(missing, 0o755, holder.owner));
    }
    if (placement.shared.includes(file)) {
      items.push(fileItem(path, file.content, { mode: file.mode, owner: holder.owner }));
    } else if ((await api.stat(holder.name, `${holder.path}/${path}`)) === undefined) {
      made.add(path);
      items.push(fileItem(path, new Uint8Array(0), { mode: 0o644, owner: holder.owner }));
    }
  }
  if (items.length > 0) await api.putArchive(holder.name, holder.path, packItems(items));
  return [...made];
}

/** What goes into a container's layer before it starts. */
export async function firstFiles(
  { api }: PrepareContext,
  run: ContainerRun,
  of: {
    /** A container that shows the image alone. */
    look(): Promise<string>;
    readonly placement: Placement;
    readonly owner: Owner;
    readonly init: BodyContext['init'];
    readonly architecture: string;
  },
): Promise<readonly ArchiveItem[]> {
  const items = [directoryItem(run.outputsDir.slice(1), 0o755, of.owner)];
  if (of.init.kind === 'written') {
    const binary = helperBinary(of.architecture) as Buffer;
    items.push(fileItem(HELPER_PATH.slice(1), binary, { mode: 0o555, owner: ROOT }));
  }
  // `~/.ssh` for `~/.ssh/key`: made by the runtime it would be root's, and the step could not write beside the key.
  const folders = new Set<string>();
  for (const file of [...of.placement.written, ...of.placement.mounted]) {
    if (run.workspace !== 'none' && isBelow(file.path, WORKSPACE_PATH)) continue;
    const folder = file.path.slice(1, Math.max(1, file.path.lastIndexOf('/')));
    if (folder === '' || folder === 'cnab') continue;
    for (const path of await missingFolders(api, await of.look(), { base: '', folder })) folders.add(path);
  }
  for (const path of folders) items.push(directoryItem(path, 0o755, of.owner));
  for (const file of of.placement.written) {
    items.push(fileItem(file.path.slice(1), file.content, { mode: file.mode, owner: of.owner }));
  }
  return items;
}

/** Owner and mode of a file that will be mounted, now that the user is known; its content is there already. */
export async function openToUser(
  source: string,
  file: ContainerFile,
  of: { readonly owner: Owner; readonly canChown: boolean },
): Promise<void> {
  if (of.canChown) {
    await chown(source, of.owner.uid, of.owner.gid);
    await chmod(source, file.mode);
    return;
  }
  // The folder above is ours alone, so only the container that it is mounted into sees it.
  await chmod(
    source,
    file.mode | 0o444 | (file.readOnly ? 0 : 0o222) | ((file.mode & 0o100) === 0 ? 0 : 0o111),
  );
}

/** The folders on the way to a path that are not there, outermost first, relative to `base`. */
async function missingFolders(
  api: DockerApi,
  container: string,
  of: { readonly base: string; readonly folder: string },
): Promise<readonly string[]> {
  const parts = of.folder.split('/').filter((part) => part !== '' && part !== '.' && part !== '..');
  const all = parts.map((_, index) => parts.slice(0, index + 1).join('/'));
  for (let there = all.length; there > 0; there -= 1) {
    if ((await api.stat(container, `${of.base}/${all[there - 1]}`)) !== undefined) return all.slice(there);
  }
  return all;
}
