import { fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Branch, branchesOf } from '../test/fuzz/branches.ts';
import type { Order, Report } from '../test/fuzz/child.ts';
import { targets } from '../test/fuzz/targets/index.ts';
import type { Target } from '../test/fuzz/types.ts';

/**
 * `npm run fuzz [PARSER…] [-- --seconds N] [--seed N] [--planted] [--missing]`: the parsers of foreign bytes, one after
 * the other. Exit 1 on a failure, on fewer inputs accepted than a fifth, on fewer branches reached than 85 %; with
 * `--planted` on a fault that is not found within a minute.
 */
const ROOT = join(import.meta.dirname, '..');
const ACCEPTED = 0.2;
const REACHED = 0.85;
const PLANTED_SECONDS = 60;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '600' },
    seed: { type: 'string' },
    planted: { type: 'boolean', default: false },
    missing: { type: 'boolean', default: false },
  },
});

function wholeNumber(text: string, flag: string): number {
  if (!/^[0-9]{1,9}$/.test(text)) throw new Error(`--${flag} ${text} is not a whole number`);
  return Number(text);
}

function branches(target: Target): Record<string, readonly Branch[]> {
  return Object.fromEntries(
    Object.entries(target.sources).map(([path, only]) => [
      path,
      branchesOf(readFileSync(join(ROOT, path), 'utf8'), only),
    ]),
  );
}

/** The report, or how the process ended without one. */
async function inProcess(order: Order): Promise<Report | string> {
  const child = fork(join(ROOT, 'test/fuzz/child.ts'), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  return await new Promise((resolve, reject) => {
    let report: Report | undefined;
    child.once('message', (message) => {
      report = message as Report;
    });
    child.once('error', reject);
    child.once('close', (code, signal) => resolve(report ?? `ended with ${signal ?? code}`));
    child.send(order);
  });
}

function percent(part: number, whole: number): string {
  return `${((100 * part) / Math.max(whole, 1)).toFixed(1)} %`;
}

function problems(report: Report): readonly string[] {
  return [
    ...(report.problem === undefined ? [] : [`${report.problem}\n  input (base64): ${report.input}`]),
    ...(report.accepted >= ACCEPTED * report.inputs ? [] : ['fewer than a fifth of the inputs are accepted']),
    ...(report.reached >= REACHED * report.total ? [] : ['fewer than 85 % of the branches are reached']),
  ];
}

async function run(name: string, seed: number): Promise<boolean> {
  const load = targets[name];
  if (load === undefined) throw new Error(`no parser is named ${name}: ${Object.keys(targets).join(', ')}`);
  const { target } = await load();
  if (values.planted) {
    const { planted } = target;
    const report = await inProcess({ parser: name, seed, seconds: PLANTED_SECONDS, branches: {}, planted });
    const found = typeof report === 'string' ? undefined : report.problem;
    const what = `${planted.from} made ${planted.to}`;
    if (typeof report === 'string' || found === undefined)
      console.log(`FAILED: ${name}: ${what} is not found`);
    else
      console.log(
        `ok: ${name}: ${what} is found after ${report.inputs} inputs, ${report.seconds.toFixed(1)} s: ${found.slice(0, 160)}`,
      );
    return found !== undefined;
  }
  const seconds = wholeNumber(values.seconds, 'seconds');
  const report = await inProcess({ parser: name, seed, seconds, branches: branches(target) });
  const wrong = typeof report === 'string' ? [report] : problems(report);
  const counts =
    typeof report === 'string'
      ? ''
      : `: ${report.inputs} inputs in ${report.seconds.toFixed(0)} s, ${percent(report.accepted, report.inputs)} accepted, ` +
        `${percent(report.reached, report.total)} of branches reached (${report.reached} of ${report.total}), ${report.corpus} kept`;
  console.log(`${wrong.length === 0 ? 'ok' : 'FAILED'}: ${name}${counts}`);
  for (const one of wrong) console.log(`  ${one}`);
  if (values.missing && typeof report !== 'string')
    for (const one of report.missing) console.log(`  not reached: ${one}`);
  return wrong.length === 0;
}

const seed = values.seed === undefined ? Date.now() % 2 ** 31 : wholeNumber(values.seed, 'seed');
console.log(`seed ${seed}`);
let good = true;
for (const name of positionals.length > 0 ? positionals : Object.keys(targets))
  good = (await run(name, seed)) && good;
process.exitCode = good ? 0 : 1;
