import { type Profiler, Session } from 'node:inspector';
import type { Branch } from './branches.ts';

type Script = Profiler.ScriptCoverage;

/** How often the innermost range that holds the offset was run. */
export function countAt(script: Script, at: number): number {
  let smallest = Number.POSITIVE_INFINITY;
  let count = 0;
  for (const { ranges } of script.functions) {
    for (const range of ranges) {
      const size = range.endOffset - range.startOffset;
      if (range.startOffset <= at && at < range.endOffset && size <= smallest) {
        smallest = size;
        count = range.count;
      }
    }
  }
  return count;
}

/** Which of the branches were taken since the last look, by V8's own block counters. */
export class Coverage {
  readonly #session = new Session();
  /** By address of the module. */
  readonly #branches: ReadonlyMap<string, readonly Branch[]>;
  readonly #reached = new Set<string>();

  /** Before the modules are loaded: V8 counts only in what it compiles afterwards. */
  constructor(branches: ReadonlyMap<string, readonly Branch[]>) {
    this.#branches = branches;
    this.#session.connect();
    this.#session.post('Profiler.enable');
    this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  }

  /** Names of branches that are reached for the first time. */
  take(): readonly string[] {
    const fresh = [...this.#look()].filter((name) => !this.#reached.has(name));
    for (const name of fresh) this.#reached.add(name);
    return fresh;
  }

  /** Which of these were reached since the last look. */
  hit(names: readonly string[]): readonly string[] {
    const seen = this.#look();
    return names.filter((name) => seen.has(name));
  }

  #look(): ReadonlySet<string> {
    let scripts: readonly Script[] = [];
    this.#session.post('Profiler.takePreciseCoverage', (error, answer) => {
      if (error !== null) throw error;
      scripts = answer.result;
    });
    const seen = new Set<string>();
    for (const script of scripts) {
      for (const [index, { at, less }] of (this.#branches.get(script.url) ?? []).entries()) {
        if (countAt(script, at) > (less === undefined ? 0 : countAt(script, less)))
          seen.add(`${script.url}#${index}`);
      }
    }
    return seen;
  }

  get total(): number {
    return [...this.#branches.values()].reduce((sum, { length }) => sum + length, 0);
  }

  get reached(): number {
    return this.#reached.size;
  }

  /** `file:line what`, for whoever wants to know what no input leads to. */
  missing(): readonly string[] {
    return [...this.#branches].flatMap(([url, branches]) =>
      branches.flatMap(({ line, what }, index) =>
        this.#reached.has(`${url}#${index}`)
          ? []
          : [`${url.slice(url.lastIndexOf('/') + 1)}:${line} ${what}`],
      ),
    );
  }
}
