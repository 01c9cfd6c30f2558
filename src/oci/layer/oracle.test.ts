import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import { recordingTransfer } from '../../testkit/images/index.ts';
import {
  linesOf,
  MergedTree,
  ModelSink,
  type OracleCase,
  oracleCases,
  oracleRegistry,
  TOOLS,
  type Tool,
  treeDigest,
  treeOf,
} from '../../testkit/layers/index.ts';
import { pullImage } from '../image/index.ts';
import { type LayoutStore, openStore } from '../store/index.ts';
import { unpackLayer } from './index.ts';

// What real tools made of 250 layers (test/data/layers), against what we make of them, in memory. The differences
// and their rules stand in docs/layers.md, and nowhere else.
const platform = { os: 'linux', architecture: 'amd64' };
const cases = oracleCases();
const byRule = readRules();

let directory: string;
let store: LayoutStore;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-oracle-'));
  store = await openStore({ directory });
});
afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

type Expected = { readonly like: Tool | 'ours' } | { readonly code: string };

/** The lists of cases under the rules of the page. */
function readRules(): ReadonlyMap<string, Expected> {
  const tools: Readonly<Record<string, Tool>> = {
    Docker: 'docker',
    Podman: 'podman',
    umoci: 'umoci',
    containerd: 'ctr',
  };
  const found = new Map<string, Expected>();
  const page = readFileSync(join(import.meta.dirname, '../../../docs/layers.md'), 'utf8');
  for (const [, head, list] of page.matchAll(/^ {2}- ([^:]+): (.*)$/gm)) {
    const code = /^Refused \((\w+)\)$/.exec(head ?? '')?.[1];
    const tool = tools[/^As (\w+)$/.exec(head ?? '')?.[1] ?? ''];
    if (code === undefined && tool === undefined && head !== 'Ours')
      throw new Error(`docs/layers.md: "${head}"`);
    for (const [, id] of (list ?? '').matchAll(/`([^`]+)`/g)) {
      if (found.has(id ?? '')) throw new Error(`docs/layers.md lists ${id} twice`);
      found.set(id ?? '', code === undefined ? { like: tool ?? 'ours' } : { code });
    }
  }
  return found;
}

async function unpacked(one: OracleCase): Promise<MergedTree | string> {
  const transfer = recordingTransfer();
  try {
    const { registry, reference } = oracleRegistry(one);
    const image = await pullImage(registry, store, reference, { ...transfer, platform });
    const merged = new MergedTree();
    for (const { digest, diffId, mediaType } of image.layers) {
      const sink = new ModelSink();
      const lower = (path: string): ReturnType<MergedTree['lower']> => merged.lower(path);
      const options = { map: undefined, lower, diffId, mediaType, signal: transfer.signal };
      await unpackLayer(store.readBlob(digest), sink, options);
      merged.add(sink);
    }
    return merged;
  } catch (error) {
    return codeFrom(error);
  }
}

/** Of the cases whose tree is recorded as a digest only. */
function impliedIn(one: OracleCase): ReadonlySet<string> {
  if (one.id !== 'entries-50000') return new Set();
  return new Set(Array.from({ length: 50 }, (_, index) => `d${String(index).padStart(2, '0')}`));
}

function expectTree(ours: MergedTree | string, one: OracleCase, tool: Tool): void {
  const theirs = treeOf(one, tool);
  if (theirs === undefined) {
    expect(ours, `${tool} refuses`).toMatch(/^OCI_/);
    return;
  }
  if (typeof ours === 'string') expect.fail(`refused with ${ours}, and ${tool} takes it`);
  const summary = theirs[0]?.sha256_of_tree;
  if (summary !== undefined) expect(treeDigest(ours.entries(), impliedIn(one))).toBe(summary);
  else expect(linesOf(ours.entries(), theirs)).toEqual(linesOf(theirs));
  const root = one.tools[tool].root ?? { mode: '0755', uid: 0, gid: 0 };
  expect([ours.root?.mode.toString(8).padStart(4, '0'), ours.root?.uid, ours.root?.gid]).toEqual(
    // Podman's root is 0555, whatever the layers say, and containerd's and Docker's what they make themselves.
    tool === 'umoci' || one.tools[tool].root !== undefined || one.agree
      ? [root.mode, root.uid, root.gid]
      : [expect.anything(), expect.anything(), expect.anything()],
  );
}

describe('where Docker, Podman, umoci and containerd agree, so do we', () => {
  const agreed = cases.filter((one) => one.agree);
  it('in 160 cases', () => expect(agreed).toHaveLength(160));
  it.each(agreed)('$id: $what', async (one) => {
    const ours = await unpacked(one);
    // A tree that is recorded as a digest is the same for all.
    const huge = one.tree?.[0]?.sha256_of_tree !== undefined;
    for (const tool of huge ? TOOLS.slice(0, 1) : TOOLS) expectTree(ours, one, tool);
  });
});

describe('where they differ, a rule says what we do', () => {
  const differing = cases.filter((one) => !one.agree);
  it('and no case is without a rule, no rule with a case that is none', () => {
    expect([...byRule.keys()].toSorted()).toEqual(differing.map((one) => one.id).toSorted());
  });
  it.each(differing)('$id: $what', async (one) => {
    const ours = await unpacked(one);
    const expected = byRule.get(one.id);
    if (expected === undefined) return expect.fail(`${one.id} stands under no rule of docs/layers.md`);
    if ('code' in expected) expect(ours).toBe(expected.code);
    else if (expected.like !== 'ours') expectTree(ours, one, expected.like);
    else {
      const wanted = treeOf(one, 'docker')?.map((entry) => ({ ...entry, ...OWN[one.id]?.[entry.path] }));
      expect(typeof ours === 'string' ? ours : linesOf(ours.entries(), wanted)).toEqual(
        linesOf(wanted ?? []),
      );
    }
  });
});

/** Where no tool does as we do: what is other than Docker's. */
const OWN: Readonly<Record<string, Readonly<Record<string, { readonly mtime: string }>>>> = {
  'mtime-2242': { g: { mtime: '100000000000000000000' } },
};
