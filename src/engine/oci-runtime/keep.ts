import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Lower } from '../../oci/index.ts';
import type { KeptContainer } from '../port.ts';
import type { OciMount } from './config.ts';
import type { ContainerRecord } from './container.ts';
import { containerRoot } from './id-map.ts';
import { containerFolder, type Directories, type RunLayout, upperFolder } from './layout.ts';

export interface KeepHost {
  readonly directories: Directories;
  readonly runtime: string;
  readonly mountProgram: string;
}

interface KeptConfig {
  readonly process: Record<string, unknown>;
  readonly mounts: readonly OciMount[];
  readonly linux: { readonly namespaces: readonly { readonly type: string; readonly path?: string }[] };
}

/** A year: the shell of a kept container needs the image's layers, and nobody may ever sweep its run. */
export const KEPT_MS = 365 * 86_400_000;

/** A month: for so long a step whose tool was killed keeps its layers, though nobody has taken the run over yet. */
export const RUN_MS = 30 * 86_400_000;

export function runLease(runId: string): string {
  return `run-${runId}`;
}

export function keptLease(runId: string): string {
  return `kept-${runId}`;
}

/**
 * Keeps a container's changes and configuration on disk, with a script that opens a shell in them, also after the
 * session: own mounts, no secret files (they were on the tmpfs), no network that is gone.
 */
export function keepContainer(
  host: KeepHost,
  layout: RunLayout,
  kept: { readonly record: ContainerRecord; readonly lowers: readonly Lower[] },
): KeptContainer {
  const { record, lowers } = kept;
  const folder = join(layout.kept, record.containerId);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, 'l', 'empty'), { recursive: true, mode: 0o700 });
  mkdirSync(join(folder, 'work'));
  renameSync(upperFolder(layout, record.overlay), join(folder, 'upper'));
  const layers = lowers.map((lower, index) => {
    const name = join('l', String(index));
    if (lower.kind === 'folder') symlinkSync(lower.path, join(folder, name));
    else mkdirSync(join(folder, name));
    return { name, image: lower.kind === 'folder' ? undefined : lower.path };
  });
  const control = containerFolder(layout, record.containerId);
  const config = JSON.parse(readFileSync(join(control, 'config.json'), 'utf8')) as KeptConfig;
  const hosts = join(folder, 'hosts');
  const shown = join(control, 'f', 'hosts');
  if (existsSync(shown)) {
    copyFileSync(shown, hosts);
    chownSync(hosts, containerRoot.uid, containerRoot.gid);
  }
  // Paths of the session's folder are replaced by the script, whose own folder has another name each time.
  const onHost = (mount: OciMount): string | undefined =>
    mount.destination === '/etc/hosts' ? hosts : stateOf(host, mount);
  const mounts = config.mounts.flatMap((mount): OciMount[] => {
    if (mount.type !== 'bind') return [mount];
    const path = onHost(mount);
    if (path === undefined || !existsSync(path)) return [];
    return [{ ...mount, source: `@STATE@${path.slice(host.directories.state.length)}` }];
  });
  const changed = {
    ...config,
    root: { path: '@ROOT@', readonly: false },
    process: { ...config.process, terminal: true, args: ['/bin/sh'] },
    mounts,
    linux: {
      ...config.linux,
      namespaces: config.linux.namespaces.map((namespace) => ({ type: namespace.type })),
    },
  };
  const template = join(folder, 'config.template.json');
  writeFileSync(template, JSON.stringify(changed), { mode: 0o600 });
  const script = join(folder, 'shell.sh');
  writeFileSync(script, shellScript(host, folder, layers), { mode: 0o700 });
  chmodSync(script, 0o700);
  return {
    containerId: record.containerId,
    shell: ['unshare', '--mount', '--propagation', 'private', 'sh', script],
  };
}

/** Where a mount's source lies in the state folder, if it does. */
function stateOf(host: { readonly directories: Directories }, { source }: OciMount): string | undefined {
  const inside = /\/h\d+\/[br](\/.*)$/.exec(source)?.[1];
  return inside === undefined ? undefined : join(host.directories.state, inside);
}

function shellScript(
  host: KeepHost,
  folder: string,
  layers: readonly { readonly name: string; readonly image: string | undefined }[],
): string {
  const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
  const lowerdir =
    layers
      .map(({ name }) => name)
      .reverse()
      .join(':') || 'l/empty';
  const mounts = layers.map(({ name, image }) =>
    image === undefined ? '' : `image ${quote(image)} ${name}\n`,
  );
  return `#!/bin/sh
# Opens a shell in a kept container. Run by \`unshare --mount\`, so that its mounts end with it.
set -eu
export LIBMOUNT_FORCE_MOUNT2=always
work=$(mktemp -d ${quote(join(host.directories.runtime, 'shell-XXXXXX'))})
mkdir "$work/state"
trap 'cd /; umount -l "$work/state" 2>/dev/null || :; rm -rf "$work"' EXIT
# Where all may go, and where the runtime must not see cgroups.
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
root=/sys/fs/cgroup/root
mkdir "$root"
mount -o bind,nosuid,nodev ${quote(host.directories.state)} "$work/state"
cd ${quote(folder)}
rm -rf work && mkdir work
image() {
  ${quote(host.mountProgram)} e "$1" "$2" 2>/dev/null || mount -t erofs -o ro,nosuid,nodev,loop "$1" "$2"
}
${mounts.join('')}mount -t overlay -o "lowerdir=${lowerdir},upperdir=upper,workdir=work" overlay "$root"
sed -e "s|@ROOT@|$root|; s|@STATE@|$work/state|g" config.template.json >"$work/config.json"
${quote(host.runtime)} --root "$work/crun" --cgroup-manager=disabled run --bundle "$work" kept-$$
`;
}
