import { readFileSync } from 'node:fs';
import type { ContainerRun } from '../port.ts';

/** Address of the name server that slirp4netns answers for, with its default network. */
const SLIRP_RESOLVER = '10.0.2.3';

export function hostsFile(run: ContainerRun): string {
  if (run.network === 'host') return readHost('/etc/hosts');
  return `127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t${run.containerId.slice(0, 63)}\n`;
}

export function resolverFile(network: ContainerRun['network']): string {
  const host = readHost('/etc/resolv.conf');
  if (network === 'host') return host;
  // Search domains and options are the host's; its servers may be on a loopback that is not reachable.
  const kept = host.split('\n').filter((line) => /^\s*(search|options|domain)\s/.test(line));
  return [`nameserver ${SLIRP_RESOLVER}`, ...kept, ''].join('\n');
}

function readHost(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
