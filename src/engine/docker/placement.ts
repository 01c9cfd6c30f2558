import type { ContainerFile, ContainerRun } from '../port.ts';
import { isBelow } from '../run-check.ts';
import type { DaemonFacts } from './daemon.ts';
import { dockerError } from './errors.ts';

export const WORKSPACE_PATH = '/cnab/app';

export interface Placement {
  /** Mounted from files on this host's tmpfs. */
  readonly mounted: readonly ContainerFile[];
  /** Written into the container's own layer, with the user's ids. */
  readonly written: readonly ContainerFile[];
  /** Written into the workspace, where nothing else is possible. */
  readonly shared: readonly ContainerFile[];
}

/**
 * How each file gets into a container. A mount leaves nothing behind, but cannot be renamed over and needs a daemon
 * that sees our files; the layer takes everything, but lies on the daemon's disk and not below the workspace.
 *
 * @throws ENGINE_DOCKER_SECRET_PLACE
 */
export function placeFiles(run: ContainerRun, facts: Pick<DaemonFacts, 'local' | 'canChown'>): Placement {
  const mounted: ContainerFile[] = [];
  const written: ContainerFile[] = [];
  const shared: ContainerFile[] = [];
  for (const file of run.files) {
    const inWorkspace = run.workspace !== 'none' && isBelow(file.path, WORKSPACE_PATH);
    const wantsLayer = !facts.local || !facts.canChown || (!file.sensitive && !file.readOnly);
    if (!inWorkspace && wantsLayer) written.push(file);
    else if (facts.local) mounted.push(file);
    else if (!file.sensitive) shared.push(file);
    else {
      throw dockerError(
        'ENGINE_DOCKER_SECRET_PLACE',
        `${file.path} holds a secret and lies below the workspace, and this Docker daemon does not see this host's files`,
        {
          hint: 'give the parameter or credential a `path` outside /cnab/app, or use another engine with --engine',
        },
      );
    }
  }
  return { mounted, written, shared };
}
