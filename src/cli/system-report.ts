import { arch, cpus, release, totalmem, type } from 'node:os';
import { versions } from 'node:process';
import { properties } from './render/table.ts';
import { formatBytes } from './render/units.ts';
import type { Host, Result } from './types.ts';
import { version } from './version.ts';

/** `version --system`: what a report of a fault needs, and nothing that is secret. */
export function systemReport(host: Host): Result {
  const data = {
    version,
    node: versions.node,
    os: type(),
    kernel: release(),
    arch: arch(),
    cpus: cpus().length,
    memoryBytes: totalmem(),
    uid: host.uid,
    variables: Object.keys(host.env)
      .filter((name) => name.startsWith('SKYCAP_'))
      .sort(),
  };
  return {
    data,
    text: () =>
      properties([
        ['skycap', data.version],
        ['Node', data.node],
        ['System', `${data.os} ${data.kernel} ${data.arch}`],
        ['Machine', `${data.cpus} CPUs, ${formatBytes(data.memoryBytes)}`],
        ['User', String(data.uid)],
        ['Variables', data.variables.length === 0 ? undefined : data.variables.join(', ')],
      ]),
  };
}
