import type { ContainerInspect } from './api-types.ts';

/** Name of the image that the shell of a kept container runs on; `sweep` removes it. */
export function keptImage(containerId: string): string {
  return `skycap/kept:${containerId.slice(0, 120)}`;
}

/**
 * A shell in what a container left: its layer as an image, its volumes, network, user and folder. An ended container
 * cannot be entered itself, and starting it again would run the step again.
 */
export function keptShell(
  socketPath: string,
  of: { readonly containerId: string; readonly found: ContainerInspect },
): readonly string[] {
  const { found } = of;
  const docker = ['docker', '--host', `unix://${socketPath}`];
  const image = keptImage(of.containerId);
  const volumes = found.Mounts.filter((mount) => mount.Type === 'volume' && mount.Name !== undefined).flatMap(
    (mount) => ['--volume', `${mount.Name}:${mount.Destination}${mount.RW ? '' : ':ro'}`],
  );
  const run = [
    ...docker,
    'run',
    '--rm',
    '--interactive',
    '--tty',
    ...volumes,
    '--network',
    found.HostConfig.NetworkMode.startsWith('skycap-') ? 'none' : found.HostConfig.NetworkMode,
    ...(found.Config.User === '' ? [] : ['--user', found.Config.User]),
    '--workdir',
    found.Config.WorkingDir === '' ? '/' : found.Config.WorkingDir,
    '--entrypoint',
    'sh',
    image,
  ];
  const commit = [...docker, 'commit', found.Id, image];
  return ['sh', '-c', `${quoted(commit)} >/dev/null && exec ${quoted(run)}`];
}

function quoted(words: readonly string[]): string {
  return words
    .map((word) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`))
    .join(' ');
}
