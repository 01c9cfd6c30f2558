import { type DocNode, entryOf, type MapNode, type TextEdit } from '../../document/index.ts';

/**
 * Adds entries to the `env:` of a step's `invoke`, in whichever of its forms the file uses. Undefined where the form
 * leaves no safe place (an alias, a tag).
 */
export function addEnv(
  source: string,
  invoke: DocNode | undefined,
  entries: Readonly<Record<string, string>>,
): readonly TextEdit[] | undefined {
  const pairs = Object.entries(entries).map(([name, text]) => `${name}: ${JSON.stringify(text)}`);
  if (pairs.length === 0) return [];
  const holder = holderOf(invoke);
  if (holder === undefined) return undefined;
  const env = entryOf(holder, 'env');
  if (env !== undefined) return intoEnv(source, env.value, { pairs, keyEnd: env.keySpan.end });
  const first = holder.entries[0];
  if (first === undefined) return undefined;
  if (holder.flow) return insert(first.keySpan.start, `env: {${pairs.join(', ')}}, `);
  const column = columnOf(source, first.keySpan.start);
  const dash = invoke?.kind === 'seq' && !invoke.flow ? dashBefore(source, first.keySpan.start) : undefined;
  const inner = ' '.repeat(column + 2);
  const block = `env:\n${pairs.map((pair) => `${inner}${pair}\n`).join('')}`;
  return dash === undefined
    ? insert(first.keySpan.start, `${block}${' '.repeat(column)}`)
    : insert(first.keySpan.start, `${block}${' '.repeat(dash)}- `);
}

/** The map that has, or gets, the key `env`. */
function holderOf(invoke: DocNode | undefined): MapNode | undefined {
  if (invoke?.kind === 'map') return invoke;
  if (invoke?.kind !== 'seq') return undefined;
  const maps = invoke.items.filter((item): item is MapNode => item.kind === 'map');
  return maps.find((item) => entryOf(item, 'env') !== undefined) ?? maps[0];
}

function intoEnv(
  source: string,
  env: DocNode,
  options: { readonly pairs: readonly string[]; readonly keyEnd: number },
): readonly TextEdit[] | undefined {
  const { pairs } = options;
  if (env.kind === 'map') {
    const first = env.entries[0];
    if (first === undefined) return [{ span: env.span, text: `{${pairs.join(', ')}}` }];
    if (env.flow) return insert(first.keySpan.start, `${pairs.join(', ')}, `);
    const indent = ' '.repeat(columnOf(source, first.keySpan.start));
    return insert(first.keySpan.start, pairs.map((pair) => `${pair}\n${indent}`).join(''));
  }
  const colon = source.indexOf(':', options.keyEnd);
  if (env.kind !== 'scalar' || env.value !== null || colon < 0) return undefined;
  return insert(colon + 1, ` {${pairs.join(', ')}}`);
}

function insert(at: number, text: string): readonly TextEdit[] {
  return [{ span: { start: at, end: at }, text }];
}

/** Column from 0. */
function columnOf(source: string, offset: number): number {
  return offset - (source.lastIndexOf('\n', offset - 1) + 1);
}

/** Column of the `-` whose item begins here, when both are on one line. */
function dashBefore(source: string, offset: number): number | undefined {
  const start = source.lastIndexOf('\n', offset - 1) + 1;
  return /^ *- +$/.test(source.slice(start, offset)) ? source.indexOf('-', start) - start : undefined;
}
