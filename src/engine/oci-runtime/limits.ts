import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { engineError } from '../errors.ts';
import type { Resources } from '../port.ts';

const ROOT = '/sys/fs/cgroup';
const PARENT = 'skycap';
/** The length of a scheduling period, in microseconds (cgroups(7), "cpu.max"). */
const PERIOD = 100_000;

/** What this host offers: version 2 for all, or version 1 by controller (also beside an empty version 2). */
export interface CgroupLayout {
  readonly unified: boolean;
  readonly controllers: ReadonlySet<string>;
}

function cgroupLayout(root = ROOT): CgroupLayout {
  const all = join(root, 'cgroup.controllers');
  if (existsSync(all)) {
    return { unified: true, controllers: new Set(readFileSync(all, 'utf8').trim().split(/\s+/)) };
  }
  const wanted = ['memory', 'pids', 'cpu'];
  return {
    unified: false,
    controllers: new Set(wanted.filter((name) => existsSync(join(root, name, 'tasks')))),
  };
}

/**
 * Groups of our own that hold a container's limits; the runtime's group management is off, because it refuses mixed
 * layouts. Returns their paths below the mount of the groups, for the supervisor to join before it starts the runtime.
 *
 * @throws ENGINE_LIMIT_UNSUPPORTED rather than start a container without a limit that was asked for
 */
export function makeGroups(
  name: string,
  resources: Resources,
  layout: CgroupLayout = cgroupLayout(),
): readonly string[] {
  const wanted = [
    ...(resources.memoryBytes === undefined ? [] : ['memory']),
    ...(resources.pids === undefined ? [] : ['pids']),
    ...(resources.cpus === undefined ? [] : ['cpu']),
  ];
  if (wanted.length === 0) return [];
  const missing = wanted.filter((controller) => !layout.controllers.has(controller));
  if (missing.length > 0)
    throw unsupported(missing.join(', '), 'the kernel offers no such cgroup controller');
  const made: string[] = [];
  try {
    if (layout.unified) {
      enable(ROOT, wanted);
      mkdirSync(join(ROOT, PARENT), { recursive: true });
      enable(join(ROOT, PARENT), wanted);
      made.push(join(PARENT, name));
    } else {
      made.push(...wanted.map((controller) => join(controller, PARENT, name)));
    }
    for (const group of made) mkdirSync(join(ROOT, group), { recursive: true });
    for (const controller of wanted) {
      const group = layout.unified ? (made[0] as string) : join(controller, PARENT, name);
      setLimit(join(ROOT, group), controller, resources);
    }
  } catch (cause) {
    removeGroups(made);
    throw unsupported(wanted.join(', '), cause instanceof Error ? cause.message : String(cause));
  }
  return made;
}

/** True if the kernel killed something in these groups for want of memory. */
export function wasOutOfMemory(groups: readonly string[]): boolean {
  return groups.some((group) =>
    ['memory.events', 'memory.oom_control'].some((file) => {
      const text = readIfAny(join(ROOT, group, file));
      return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? 0) > 0;
    }),
  );
}

/** Removes empty groups; ones that still have processes stay for a later sweep. */
export function removeGroups(groups: readonly string[]): readonly string[] {
  return groups.filter((group) => {
    try {
      rmdirSync(join(ROOT, group));
      return false;
    } catch (cause) {
      return (cause as NodeJS.ErrnoException).code !== 'ENOENT';
    }
  });
}

function setLimit(group: string, controller: string, resources: Resources): void {
  const unified = existsSync(join(group, 'cgroup.controllers'));
  const set = (file: string, value: number | string): void => writeFileSync(join(group, file), String(value));
  if (controller === 'pids') set('pids.max', resources.pids as number);
  if (controller === 'memory') {
    const bytes = resources.memoryBytes as number;
    set(unified ? 'memory.max' : 'memory.limit_in_bytes', bytes);
    // Swap would let a container have more than it was given.
    const swap = unified ? 'memory.swap.max' : 'memory.memsw.limit_in_bytes';
    if (existsSync(join(group, swap))) set(swap, unified ? 0 : bytes);
  }
  if (controller === 'cpu') {
    const quota = Math.max(1000, Math.round((resources.cpus as number) * PERIOD));
    if (unified) set('cpu.max', `${quota} ${PERIOD}`);
    else {
      set('cpu.cfs_period_us', PERIOD);
      set('cpu.cfs_quota_us', quota);
    }
  }
}

function enable(group: string, controllers: readonly string[]): void {
  const file = join(group, 'cgroup.subtree_control');
  const enabled = readFileSync(file, 'utf8').trim().split(/\s+/);
  const missing = controllers.filter((controller) => !enabled.includes(controller));
  if (missing.length > 0) writeFileSync(file, missing.map((controller) => `+${controller}`).join(' '));
}

function readIfAny(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function unsupported(what: string, why: string): Error {
  return engineError('ENGINE_LIMIT_UNSUPPORTED', `a limit on ${what} cannot be kept on this host: ${why}`, {
    hint: 'remove `resources` from the step, or use an engine that can keep them',
  });
}
