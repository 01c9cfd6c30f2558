/**
 * Who waits for whom in one action. `needs[i]` lists positions, or is undefined for "all steps before it", which is
 * kept as a chain of barriers so that a thousand steps make thousands of edges and not half a million.
 */
export interface OrderGraph {
  /** True when step `early` has always ended before step `late` starts. */
  readonly before: (early: number, late: number) => boolean;
}

export type OrderResult =
  | { readonly kind: 'order'; readonly graph: OrderGraph }
  /** Positions of steps that wait for each other, in order. */
  | { readonly kind: 'cycle'; readonly steps: readonly number[] };

export function orderGraph(needs: readonly (readonly number[] | undefined)[]): OrderResult {
  const count = needs.length;
  // Every step waits for all before it: no graph is needed.
  if (needs.every((list) => list === undefined))
    return { kind: 'order', graph: { before: (early, late) => early < late } };
  const edges = edgesOf(needs);
  const order = topological(edges);
  if (order === undefined) return { kind: 'cycle', steps: findCycle(edges).filter((node) => node < count) };
  const words = (count + 31) >> 5;
  const bits = edges.map(() => new Uint32Array(words));
  for (const node of order) {
    const own = bits[node] as Uint32Array;
    for (const target of edges[node] ?? []) {
      const other = bits[target] as Uint32Array;
      for (let w = 0; w < words; w++) own[w] = (own[w] as number) | (other[w] as number);
      if (target < count) own[target >> 5] = (own[target >> 5] as number) | (1 << (target & 31));
    }
  }
  return {
    kind: 'order',
    graph: { before: (early, late) => (((bits[late]?.[early >> 5] ?? 0) >>> (early & 31)) & 1) === 1 },
  };
}

/** Nodes 0…n-1 are steps; node n+i is the barrier "all steps before i". */
function edgesOf(needs: readonly (readonly number[] | undefined)[]): readonly (readonly number[])[] {
  const count = needs.length;
  const steps = needs.map((list, i) => list ?? [count + i]);
  const barriers = needs.map((_, i) => (i === 0 ? [] : [count + i - 1, i - 1]));
  return [...steps, ...barriers];
}

/** Nodes in an order in which each comes after all that it waits for; undefined where there is a cycle. */
function topological(edges: readonly (readonly number[])[]): readonly number[] | undefined {
  const waiting = edges.map((targets) => targets.length);
  const dependents: number[][] = edges.map(() => []);
  for (const [node, targets] of edges.entries()) for (const target of targets) dependents[target]?.push(node);
  const order = waiting.flatMap((left, node) => (left === 0 ? [node] : []));
  for (let next = 0; next < order.length; next++)
    for (const dependent of dependents[order[next] as number] ?? []) {
      waiting[dependent] = (waiting[dependent] as number) - 1;
      if (waiting[dependent] === 0) order.push(dependent);
    }
  return order.length === edges.length ? order : undefined;
}

function findCycle(edges: readonly (readonly number[])[]): readonly number[] {
  const state = new Uint8Array(edges.length);
  for (let root = 0; root < edges.length; root++) {
    if (state[root] !== 0) continue;
    const stack = [{ node: root, next: 0 }];
    state[root] = 1;
    while (stack.length > 0) {
      const top = stack[stack.length - 1] as { readonly node: number; next: number };
      const target = edges[top.node]?.[top.next++];
      if (target === undefined) {
        state[top.node] = 2;
        stack.pop();
      } else if (state[target] === 1) {
        const path = stack.map((frame) => frame.node);
        return path.slice(path.indexOf(target));
      } else if (state[target] === 0) {
        state[target] = 1;
        stack.push({ node: target, next: 0 });
      }
    }
  }
  return [];
}
