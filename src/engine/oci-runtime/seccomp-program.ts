import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { runProcess } from '../../kernel/system/index.ts';
import { containerConfig } from './config.ts';
import { containerRoot } from './id-map.ts';
import { seccompProfile } from './seccomp-profile.ts';
import { asSearchTree } from './seccomp-tree.ts';

/** Another one where what is kept changes for the same profile. */
const FORM = 'search tree';
/** BPF_RET | BPF_K (linux/bpf_common.h). */
const RETURN = 6;

/**
 * Compiling the profile is more than half of what a container costs, so the program is kept: crun leaves it in its
 * state folder after `create`, and takes it back in an annotation; what is kept is that program as a search tree
 * (seccomp-tree.ts). The key holds the profile and the very crun.
 * Without a program (first start failed, another runtime) containers compile the profile: slower, never weaker.
 *
 * @returns the program in base64
 */
export async function seccompProgram(options: {
  readonly runtime: string;
  readonly directory: string;
  readonly initProgram: string;
  readonly signal: AbortSignal;
}): Promise<string | undefined> {
  const found = statSync(options.runtime);
  const key = createHash('sha256')
    .update(JSON.stringify([FORM, seccompProfile(process.arch), options.runtime, found.size, found.mtimeMs]))
    .digest('hex');
  const kept = join(options.directory, `${key}.bpf`);
  let program = readProgram(kept);
  if (program === undefined) {
    await compile(kept, options);
    program = readProgram(kept);
  }
  return program?.toString('base64');
}

/** cBPF instructions, 8 bytes each, with a return at the end; undefined for anything else, such as an empty file. */
function readProgram(file: string): Buffer | undefined {
  if (!existsSync(file)) return undefined;
  const program = readFileSync(file);
  const isWhole =
    program.length > 0 && program.length % 8 === 0 && program.readUInt8(program.length - 8) === RETURN;
  return isWhole ? program : undefined;
}

async function compile(kept: string, options: Parameters<typeof seccompProgram>[0]): Promise<void> {
  mkdirSync(options.directory, { recursive: true, mode: 0o700 });
  const work = mkdtempSync(join(options.directory, 'compile-'));
  try {
    const config = containerConfig(
      {
        containerId: 'compile',
        image: '',
        argv: ['/'],
        env: {},
        user: '',
        workingDir: '/',
        workspace: 'none',
        home: 'own',
        network: 'none',
        dockerSocket: false,
        privileged: false,
        resources: {},
        volumes: [],
        files: [],
        outputsDir: '/out',
        collectPaths: [],
        graceMs: 0,
        sensitive: false,
      },
      {
        rootfs: '/sys/fs/cgroup/root',
        user: { uid: 0, gid: 0, additionalGids: [], home: '/' },
        binds: [],
        networkNamespace: undefined,
        initProgram: options.initProgram,
        seccompProgram: undefined,
      },
    );
    writeFileSync(join(work, 'config.json'), JSON.stringify(config), { mode: 0o600 });
    const script = `
      mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup && mkdir /sys/fs/cgroup/root || exit 1
      chown ${containerRoot.uid}:${containerRoot.gid} /sys/fs/cgroup/root
      "$1" --root "$2/state" --cgroup-manager=disabled create --bundle "$2" compile >/dev/null 2>&1 || exit 1
      cp "$2/state/compile/seccomp.bpf" "$2/seccomp.bpf"
      "$1" --root "$2/state" --cgroup-manager=disabled delete --force compile`;
    await runProcess(
      'unshare',
      ['--mount', '--propagation', 'private', 'sh', '-c', script, 'sh', options.runtime, work],
      {
        signal: options.signal,
        timeoutMs: 20_000,
      },
    );
    const made = readProgram(join(work, 'seccomp.bpf'));
    if (made !== undefined) keep(asSearchTree(made) ?? made, { work, kept });
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** The name appears when the content is whole, and `work` is this process's alone, whatever its id is elsewhere. */
function keep(program: Uint8Array, { work, kept }: { readonly work: string; readonly kept: string }): void {
  const fresh = join(work, 'kept');
  writeFileSync(fresh, program, { mode: 0o600 });
  renameSync(fresh, kept);
}
