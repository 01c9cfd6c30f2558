import { access, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ContainerFile, Session, WorkspaceEntry } from '../engine/index.ts';
import type { Emit } from '../kernel/index.ts';
import { packFiles, type VirtualFile } from '../oci/layer/index.ts';
import {
  containerPath,
  inputsPath,
  isWorkspaceParameter,
  type KnownValue,
  outputsPath,
  type Plan,
  workspacePath,
} from '../plan/index.ts';
import { type RunEvent, runError } from '../run/index.ts';
import type { StateStore } from '../state/index.ts';
import { type BundleFile, bundleArchive } from './bundle-files.ts';
import { isOutside, outsideFiles, restorableState, savedArchive } from './state-restore.ts';

export interface WorkspaceParts {
  readonly plan: Plan;
  readonly session: Session;
  readonly state: StateStore;
  readonly installationId: string;
  readonly emit: Emit<RunEvent>;
}

/** What the workspace held before the steps, by path: later differences are the run's. */
export type Baseline = Readonly<Record<string, string>>;

/**
 * Fills a new workspace: files that images carry under /cnab/app, the bundle's files over them, parameters located
 * there, at last the saved state.
 *
 * @returns the baseline, and the saved files that lie outside the workspace
 */
export async function fillWorkspace(
  parts: WorkspaceParts,
  from: {
    readonly folder: string;
    readonly files: readonly BundleFile[];
    /** In the order of `invocationImages`. */
    readonly imageNames: readonly string[];
    readonly parameters: ReadonlyMap<string, KnownValue>;
    /** The bundle's files are those that the state was saved under. */
    readonly isSameBundle: boolean;
  },
): Promise<{ readonly baseline: Baseline; readonly carried: readonly ContainerFile[] }> {
  const { session, plan } = parts;
  for (const name of from.imageNames) {
    const archive = await session.imageArchive(name, workspacePath);
    if (archive !== undefined) await session.workspace.put(archive);
  }
  await session.workspace.put(bundleArchive(from.folder, from.files));
  const located = plan.parameters.filter(isWorkspaceParameter).flatMap((parameter): VirtualFile[] => {
    const value = from.parameters.get(parameter.name);
    if (value === undefined || parameter.path === undefined) return [];
    return [
      {
        path: containerPath(parameter.path).slice(workspacePath.length + 1),
        content: value.bytes,
        mode: 0o644,
      },
    ];
  });
  if (located.length > 0) await session.workspace.put(asAsync(packFiles(located)));
  const baseline = baselineOf(await session.workspace.snapshot());
  const carried = await restoreState(parts, from);
  return { baseline, carried };
}

function baselineOf(entries: readonly WorkspaceEntry[]): Baseline {
  return Object.fromEntries(entries.map((entry) => [entry.path, fingerprintOf(entry)]));
}

function fingerprintOf(entry: WorkspaceEntry): string {
  // A folder changes with what is in it; what is in it speaks for itself.
  return entry.type === 'directory' ? `directory ${entry.mode}` : `${entry.type} ${entry.fingerprint}`;
}

async function restoreState(
  parts: WorkspaceParts,
  from: { readonly files: readonly BundleFile[]; readonly isSameBundle: boolean },
): Promise<readonly ContainerFile[]> {
  if (parts.plan.state.kind === 'off') return [];
  const saved = await parts.state.loadState(parts.installationId);
  if (saved === undefined) return [];
  const shipped = new Set(from.files.filter((file) => file.type !== 'directory').map((file) => file.path));
  const named =
    parts.plan.state.kind === 'paths' ? parts.plan.state.paths.map((entry) => relativePath(entry.path)) : [];
  const keeps = (path: string): boolean =>
    from.isSameBundle ||
    !shipped.has(path) ||
    named.some((own) => path === own || path.startsWith(`${own}/`));
  const dropped: string[] = [];
  const outside = new Map<string, Uint8Array>();
  await parts.session.workspace.put(
    restorableState(saved, {
      keeps,
      onDropped: (path) => dropped.push(path),
      onOutside: (path, content) => outside.set(path, content),
    }),
  );
  for (const path of dropped) {
    parts.emit({
      type: 'notice',
      code: 'state-replaced',
      message: `${path}: the file that the bundle ships now replaces what an earlier run had made of it`,
    });
  }
  return carriedOutside(parts.plan, outside);
}

/** Saved files that lie outside the workspace, for a run that goes on in the workspace of an earlier one. */
export async function savedOutside(
  parts: Pick<WorkspaceParts, 'plan' | 'state' | 'installationId'>,
): Promise<readonly ContainerFile[]> {
  if (parts.plan.state.kind !== 'paths') return [];
  const saved = await parts.state.loadState(parts.installationId);
  if (saved === undefined) return [];
  return carriedOutside(parts.plan, await outsideFiles(saved));
}

/** Only what `state:` names: the archive's own word is a step's word. */
function carriedOutside(plan: Plan, files: ReadonlyMap<string, Uint8Array>): readonly ContainerFile[] {
  const own = plan.state.kind === 'paths' ? plan.state.paths.map((entry) => entry.path) : [];
  return [...files]
    .filter(([path]) => own.some((named) => path === named || path.startsWith(`${named}/`)))
    .map(([path, content]) => ({ path, content, mode: 0o600, sensitive: true, readOnly: false }));
}

/** Saves what `state:` names, or by default what the run added or changed. @throws WORKSPACE_TOO_LARGE */
export async function saveWorkspaceState(
  parts: WorkspaceParts,
  run: { readonly id: string; readonly baseline: Baseline; readonly carried: readonly ContainerFile[] },
): Promise<void> {
  const { plan, session, state, installationId } = parts;
  if (plan.state.kind === 'off') return;
  if (plan.state.kind === 'paths') {
    const own = plan.state.paths.map((entry) => entry.path);
    const outside = run.carried.filter((file) =>
      own.some((path) => file.path === path || file.path.startsWith(`${path}/`)),
    );
    const archive = await session.workspace.get(own.filter(isInside).map(relativePath));
    await state.saveState(installationId, run.id, savedArchive(archive, outside));
    return;
  }
  const entries = await session.workspace.snapshot();
  const changed = changedEntries(entries, run.baseline);
  const sizeBytes = changed.reduce((sum, entry) => sum + entry.sizeBytes, 0);
  if (sizeBytes > plan.state.maxBytes) throw tooLarge(changed, sizeBytes, plan.state.maxBytes);
  await state.saveState(
    installationId,
    run.id,
    await session.workspace.get(changed.map((entry) => entry.path)),
  );
}

function changedEntries(entries: readonly WorkspaceEntry[], baseline: Baseline): readonly WorkspaceEntry[] {
  const mounts = [outputsPath, inputsPath].map((path) => path.slice(workspacePath.length + 1));
  const candidates = entries.filter(
    ({ path }) => !isOutside(path) && !mounts.some((mount) => path === mount || path.startsWith(`${mount}/`)),
  );
  const folders = new Set(candidates.map((entry) => dirname(entry.path)));
  return candidates.filter((entry) => {
    if (entry.type === 'other') return false;
    if (baseline[entry.path] === fingerprintOf(entry)) return false;
    // A folder comes with its files; only an empty one has to be named.
    return entry.type !== 'directory' || !folders.has(entry.path);
  });
}

function tooLarge(changed: readonly WorkspaceEntry[], sizeBytes: number, maxBytes: number): Error {
  const largest = [...changed].sort((a, b) => b.sizeBytes - a.sizeBytes).slice(0, 5);
  const list = largest.map((entry) => `${entry.path} (${entry.sizeBytes})`).join(', ');
  return runError(
    'WORKSPACE_TOO_LARGE',
    `the run changed ${sizeBytes} bytes in the workspace, and ${maxBytes} are kept; the largest: ${list}`,
    {
      hint: 'name what has to be kept under `state:`, or turn it off with `state: []`',
    },
  );
}

export async function writeBaseline(directory: string, runId: string, baseline: Baseline): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await writeFile(join(directory, `${runId}.json`), JSON.stringify(baseline), { mode: 0o600 });
}

export async function readBaseline(directory: string, runId: string): Promise<Baseline> {
  try {
    return JSON.parse(await readFile(join(directory, `${runId}.json`), 'utf8')) as Baseline;
  } catch {
    // Killed before it was written: no step had begun, so nothing was changed that anybody misses.
    return {};
  }
}

/** Whether a run left its workspace: the baseline is written once it is filled and goes with it. */
export async function hasBaseline(directory: string, runId: string): Promise<boolean> {
  return access(join(directory, `${runId}.json`)).then(
    () => true,
    () => false,
  );
}

export async function removeBaseline(directory: string, runId: string): Promise<void> {
  await rm(join(directory, `${runId}.json`), { force: true });
}

function isInside(path: string): boolean {
  return !path.startsWith('/') || path.startsWith(`${workspacePath}/`);
}

function relativePath(path: string): string {
  return path.startsWith(`${workspacePath}/`) ? path.slice(workspacePath.length + 1) : path;
}

async function* asAsync(chunks: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* chunks;
}
