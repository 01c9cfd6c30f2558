import { createHash } from 'node:crypto';
import { oneChunk, type PackEntry, packArchive, readAll, readArchive } from '../archive.ts';
import type { Workspace, WorkspaceEntry } from '../port.ts';
import { type DirectoryNode, directory, file, split, type TreeNode } from './tree.ts';

export function fakeWorkspace(root: () => DirectoryNode): Workspace {
  return {
    async put(archive) {
      for await (const entry of readArchive(archive)) {
        if (entry.path === '') continue;
        const parts = split(entry.path);
        const name = parts.pop() as string;
        const folder = folderAt(root(), parts);
        const old = folder.entries.get(name);
        if (entry.type === 'directory') {
          if (old?.kind === 'directory') old.mode = entry.mode;
          else folder.entries.set(name, directory(entry.mode));
        } else if (entry.type === 'file') {
          folder.entries.set(name, file(await readAll(entry.content), entry.mode));
        } else if (entry.type === 'symlink') {
          folder.entries.set(name, { kind: 'symlink', target: entry.linkTarget, mode: 0o777 });
        } else if (entry.type === 'hardlink') {
          const target = nodeAt(root(), split(entry.linkTarget));
          if (target !== undefined) folder.entries.set(name, target);
        }
      }
    },
    async get(paths) {
      const entries: PackEntry[] = [];
      for (const path of paths) {
        const node = nodeAt(root(), split(path));
        if (node !== undefined)
          walk(split(path).join('/'), node, (at, found) => void entries.push(packed(at, found)));
      }
      return packArchive(entries.filter((entry) => entry.path !== ''));
    },
    async snapshot() {
      const entries: WorkspaceEntry[] = [];
      walk('', root(), (path, node) => {
        if (path !== '') entries.push(snapshotEntry(path, node));
      });
      return entries;
    },
    async remove(paths) {
      for (const path of paths) {
        const parts = split(path);
        const name = parts.pop();
        const folder = nodeAt(root(), parts);
        if (name !== undefined && folder?.kind === 'directory') folder.entries.delete(name);
      }
    },
  };
}

/** Packs what lies below a folder of an image. */
export function packTree(root: DirectoryNode): AsyncIterable<Uint8Array> {
  const entries: PackEntry[] = [];
  walk('', root, (path, node) => {
    if (path !== '') entries.push(packed(path, node));
  });
  return packArchive(entries);
}

export function nodeAt(root: DirectoryNode, parts: readonly string[]): TreeNode | undefined {
  let node: TreeNode = root;
  for (const part of parts) {
    const next: TreeNode | undefined = node.kind === 'directory' ? node.entries.get(part) : undefined;
    if (next === undefined) return undefined;
    node = next;
  }
  return node;
}

function folderAt(root: DirectoryNode, parts: readonly string[]): DirectoryNode {
  let folder = root;
  for (const part of parts) {
    const next = folder.entries.get(part);
    const made = next?.kind === 'directory' ? next : directory();
    folder.entries.set(part, made);
    folder = made;
  }
  return folder;
}

function walk(path: string, node: TreeNode, visit: (path: string, node: TreeNode) => void): void {
  visit(path, node);
  if (node.kind !== 'directory') return;
  for (const [name, child] of [...node.entries].sort(([a], [b]) => (a < b ? -1 : 1))) {
    walk(path === '' ? name : `${path}/${name}`, child, visit);
  }
}

function packed(path: string, node: TreeNode): PackEntry {
  if (node.kind === 'file') {
    return {
      path,
      type: 'file',
      mode: node.mode,
      sizeBytes: node.content.length,
      content: oneChunk(node.content),
    };
  }
  if (node.kind === 'symlink') return { path, type: 'symlink', mode: node.mode, linkTarget: node.target };
  return { path, type: node.kind, mode: node.mode };
}

function snapshotEntry(path: string, node: TreeNode): WorkspaceEntry {
  const type = node.kind === 'fifo' || node.kind === 'device' ? 'other' : node.kind;
  const content = node.kind === 'file' ? node.content : node.kind === 'symlink' ? node.target : '';
  const sizeBytes = node.kind === 'file' ? (node.sizeBytes ?? node.content.length) : 0;
  const fingerprint = createHash('sha256')
    .update(`${type} ${node.mode} `)
    .update(content)
    .digest('hex')
    .slice(0, 32);
  return { path, type, sizeBytes, mode: node.mode, fingerprint };
}
