// How long the program takes to start, over `node -e 0` of the same Node, interleaved: `version`, and `lint` of a file
// with a hundred steps. Ratios of medians; the folder of compiled code is warm, as it is from the second start on.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BenchRow } from './run.ts';

const program = join(import.meta.dirname, '../bin/skycap');
const ROUNDS = 40;

/** Half of the steps name a program, half have a script; every one uses a parameter. */
function bundle(steps: number): string {
  const head = `name: hundred
version: 1.0.0
invocationImages:
  - {name: terraform, image: ghcr.io/acme/terraform:1.9}
  - {name: helm, image: ghcr.io/acme/helm:3}
parameters:
  - {name: region, type: string, default: eu, env: REGION}
install:
`;
  const command = (n: number): string => `  - description: Release part ${n}
    id: release-${n}
    invoke:
      name: helm
      action:
        command: [helm, upgrade, --install, part-${n}, ./chart, --set, "region=\${ bundle.parameters.region }"]
`;
  const script = (n: number): string => `  - description: Prepare part ${n}
    id: prepare-${n}
    invoke:
      name: terraform
      action:
        run: |
          terraform init -input=false
          terraform apply -auto-approve -var "region=$REGION" -var part=${n}
      env:
        PART: part-\${ bundle.parameters.region }-${n}
`;
  return head + Array.from({ length: steps }, (_, n) => (n % 2 === 0 ? script(n) : command(n))).join('');
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** Rows of ratios to `node -e 0`. @throws Error where a command fails */
export async function bench(): Promise<BenchRow[]> {
  const directory = mkdtempSync(join(tmpdir(), 'skycap-bench-'));
  try {
    writeFileSync(join(directory, 'porter.yaml'), bundle(100));
    const env = { PATH: process.env.PATH, HOME: directory, XDG_CACHE_HOME: join(directory, 'cache') };
    const time = (command: string, args: readonly string[]): number => {
      const before = performance.now();
      const ended = spawnSync(command, args, { cwd: directory, env, stdio: ['ignore', 'ignore', 'pipe'] });
      const took = performance.now() - before;
      if (ended.status !== 0) throw new Error(`${command} ${args.join(' ')}: ${ended.stderr}`);
      return took;
    };
    const times = { node: [] as number[], version: [] as number[], lint: [] as number[] };
    for (let round = -2; round < ROUNDS; round++) {
      const node = time(process.execPath, ['-e', '0']);
      const version = time(program, ['version']);
      const lint = time(program, ['lint']);
      if (round < 0) continue;
      times.node.push(node);
      times.version.push(version);
      times.lint.push(lint);
    }
    const row = (name: string, values: readonly number[], limit: number): BenchRow => {
      const value = median(values) / median(times.node);
      return { name, limit, value, met: value <= limit };
    };
    return [
      row('skycap version, times node -e 0', times.version, 1.3),
      row('skycap lint of 100 steps, times node -e 0', times.lint, 2.9),
    ];
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
