import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openStore } from '../../oci/store/index.ts';
import type { ContractFixture, RunIds } from '../contract/fixture.ts';
import { contractImages } from '../contract/images.contract.ts';
import { orphan } from '../contract/orphan.ts';
import type { Engine } from '../port.ts';
import { createOciRuntimeEngine } from './index.ts';

export interface ContractDirectories {
  readonly state: string;
  readonly runtime: string;
  readonly store: string;
}

export async function openForContract(options: unknown): Promise<Engine> {
  const { state, runtime, store } = options as ContractDirectories;
  return createOciRuntimeEngine({
    store: await openStore({ directory: store }),
    runtime: '/usr/bin/crun',
    stateDirectory: state,
    runtimeDirectory: runtime,
  });
}

/** Folders on a disk and on a tmpfs, as the engine wants them. */
export function makeContractDirectories(): ContractDirectories & Disposable {
  const disk = mkdtempSync('/var/tmp/engine-contract-');
  const runtime = mkdtempSync('/dev/shm/engine-contract-');
  return {
    state: join(disk, 'state'),
    store: join(disk, 'store'),
    runtime,
    [Symbol.dispose]() {
      rmSync(disk, { recursive: true, force: true });
      rmSync(runtime, { recursive: true, force: true });
    },
  };
}

export async function crunFixture(): Promise<
  ContractFixture & { readonly directories: ContractDirectories }
> {
  const directories = makeContractDirectories();
  const store = await openStore({ directory: directories.store });
  return {
    directories,
    engine: await openForContract(directories),
    images: await contractImages(store),
    leftovers: async (runs) => leftovers(directories, runs),
    orphan: (spec, run) => orphan({ module: import.meta.url, options: directories }, spec, run),
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      directories[Symbol.dispose]();
    },
  };
}

/** Everything on this host that has a name of ours in it; control groups are those of the runs. */
function leftovers(directories: ContractDirectories, runs: readonly RunIds[]): string[] {
  const own = (text: string): boolean =>
    text.includes(directories.runtime) || text.includes(directories.state);
  const left = [directories.runtime, join(directories.state, 'runs')].flatMap((folder) =>
    existsSync(folder) ? readdirSync(folder).map((name) => `${folder}/${name}`) : [],
  );
  const volumes = join(directories.state, 'volumes');
  if (existsSync(volumes)) left.push(...readdirSync(volumes).map((name) => `volume ${name}`));
  left.push(
    ...readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .filter(own)
      .map((line) => `mount ${line}`),
  );
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const command = readIfAny(`/proc/${pid}/cmdline`).replaceAll('\0', ' ');
    if (own(command)) left.push(`process ${pid} ${command}`);
    else if (own(readIfAny(`/proc/${pid}/mountinfo`)) && Number(pid) !== process.pid)
      left.push(`mount namespace of ${pid} ${command}`);
  }
  for (const controller of ['memory', 'pids', 'cpu', '.']) {
    const group = `/sys/fs/cgroup/${controller}/skycap`;
    if (existsSync(group)) {
      left.push(
        ...readdirSync(group, { withFileTypes: true })
          .filter((one) => one.isDirectory() && runs.some(({ runId }) => one.name.startsWith(runId)))
          .map((one) => `cgroup ${group}/${one.name}`),
      );
    }
  }
  return left;
}

function readIfAny(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
