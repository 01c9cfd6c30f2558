import { createHash } from 'node:crypto';
import type { DockerApi } from './api.ts';
import type { ContainerSummary } from './api-types.ts';

/** Labels on everything that this engine makes; `adopt` and `sweep` find by them. */
export const LABEL = {
  run: 'dev.skycap.run',
  role: 'dev.skycap.role',
  installation: 'dev.skycap.installation',
  container: 'dev.skycap.container',
  /** On the holder: the volume that is the workspace (of an earlier run where it was taken over). */
  workspace: 'dev.skycap.workspace',
  /** On the holder: the pinned images of the session, for whoever adopts it. */
  images: 'dev.skycap.images',
  /** Begins the first process's report; see `StartReport`. */
  mark: 'dev.skycap.mark',
  outputs: 'dev.skycap.outputs',
} as const;

export type Role = 'holder' | 'step' | 'shell' | 'helper' | 'volume' | 'network';

export function labelsOf(
  runId: string,
  role: Role,
  more: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return { [LABEL.run]: runId, [LABEL.role]: role, ...more };
}

export function containerName(containerId: string): string {
  return `skycap-${containerId}`;
}

export function runName(runId: string, what: string): string {
  return `skycap-${safe(runId)}-${what}`;
}

/** A volume of scope `installation`: the id may hold anything, so its digest stands for it. */
export function installationVolumeName(installationId: string, name: string): string {
  const digest = createHash('sha256').update(installationId).digest('hex').slice(0, 24);
  return `skycap-installation-${digest}-${name}`;
}

/** Ids are taken as they are where Docker's grammar for names allows it. */
function safe(id: string): string {
  return /^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,100}$/.test(id)
    ? id
    : createHash('sha256').update(id).digest('hex').slice(0, 32);
}

export async function containersOf(api: DockerApi, runId: string): Promise<readonly ContainerSummary[]> {
  return await api.json<readonly ContainerSummary[]>({
    path: '/containers/json',
    query: { all: '1', filters: JSON.stringify({ label: [`${LABEL.run}=${runId}`] }) },
    doing: 'list the containers of a run',
  });
}

export async function volumesOf(api: DockerApi, labels: readonly string[]): Promise<readonly string[]> {
  const { Volumes } = await api.json<{ readonly Volumes: readonly { readonly Name: string }[] | null }>({
    path: '/volumes',
    query: { filters: JSON.stringify({ label: labels }) },
    doing: 'list volumes',
  });
  return (Volumes ?? []).map((volume) => volume.Name);
}

export async function networksOf(api: DockerApi, runId: string): Promise<readonly string[]> {
  const found = await api.json<readonly { readonly Id: string }[]>({
    path: '/networks',
    query: { filters: JSON.stringify({ label: [`${LABEL.run}=${runId}`] }) },
    doing: 'list the networks of a run',
  });
  return found.map((network) => network.Id);
}
