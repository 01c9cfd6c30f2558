import { fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Branch, branchesOf } from '../test/fuzz/branches.ts';
import type { Order, Report } from '../test/fuzz/child.ts';
import { targets } from '../test/fuzz/targets/index.ts';
import type { Target } from '../test/fuzz/types.ts';
import { cell, type Row, type Table, writeRows } from './fuzz-page.ts';

/**
 * `npm run fuzz [PARSER…] [-- --seconds N] [--seed N] [--planted] [--missing] [--page]`: the parsers of foreign bytes,
 * one after the other. Exit 1 on a failure, on fewer inputs accepted than a fifth, on fewer branches reached than 85 %;
 * with `--planted` on a fault that is not found within a minute. What is good goes into docs/fuzzing.md by `--page`.
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
    page: { type: 'boolean', default: false },
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

const today = (): string => new Date().toISOString().slice(0, 10);
const counted = (count: number): string => count.toLocaleString('en');

function toPage(table: Table, rows: readonly Row[]): void {
  if (values.page) writeRows(table, rows, Object.keys(targets));
}

async function runPlanted(name: string, { planted }: Target, seed: number): Promise<boolean> {
  const report = await inProcess({ parser: name, seed, seconds: PLANTED_SECONDS, branches: {}, planted });
  const found = typeof report === 'string' ? undefined : report.problem;
  const what = `${planted.from} made ${planted.to}`;
  if (typeof report === 'string' || found === undefined) {
    console.log(
      `FAILED: ${name}: ${what} is not found: ${typeof report === 'string' ? report : `${report.inputs} inputs`}`,
    );
    return false;
  }
  const said = cell(found.slice(0, 160));
  const seconds = report.seconds.toFixed(1);
  console.log(`ok: ${name}: ${what} is found after ${report.inputs} inputs, ${seconds} s: ${said}`);
  const fault = `\`${cell(planted.from)}\` made \`${cell(planted.to)}\``;
  toPage('planted', [[name, today(), fault, counted(report.inputs), seconds, said]]);
  return true;
}

async function runWhole(name: string, target: Target, seed: number): Promise<boolean> {
  const seconds = wholeNumber(values.seconds, 'seconds');
  const report = await inProcess({ parser: name, seed, seconds, branches: branches(target) });
  if (typeof report === 'string') {
    console.log(`FAILED: ${name}\n  ${report}`);
    return false;
  }
  const wrong = problems(report);
  const accepted = percent(report.accepted, report.inputs);
  const reached = `${percent(report.reached, report.total)} (${report.reached} of ${report.total})`;
  const [whole, busy] = [report.seconds.toFixed(0), report.busy.toFixed(0)];
  console.log(
    `${wrong.length === 0 ? 'ok' : 'FAILED'}: ${name}: ${report.inputs} inputs in ${whole} s (${busy} s busy), ` +
      `${accepted} accepted, ${reached} of branches reached, ${report.corpus} kept, peer asked of ${report.asked}`,
  );
  for (const one of wrong) console.log(`  ${one}`);
  for (const [what, count] of Object.entries(report.apart)) console.log(`  ${count} apart: ${what}`);
  if (values.missing) for (const one of report.missing) console.log(`  not reached: ${one}`);
  if (wrong.length > 0) return false;
  const peer = target.peer === undefined ? '' : `${target.peer.name}: ${counted(report.asked)}`;
  const numbers = [whole, busy, counted(report.inputs), accepted, reached];
  toPage('runs', [[name, today(), ...numbers, target.judgedBy, peer]]);
  toPage(
    'apart',
    Object.entries(report.apart).map(([what, count]): Row => [name, cell(what), counted(count)]),
  );
  return true;
}

async function run(name: string, seed: number): Promise<boolean> {
  const load = targets[name];
  if (load === undefined) throw new Error(`no parser is named ${name}: ${Object.keys(targets).join(', ')}`);
  const { target } = await load();
  return values.planted ? await runPlanted(name, target, seed) : await runWhole(name, target, seed);
}

const seed = values.seed === undefined ? Date.now() % 2 ** 31 : wholeNumber(values.seed, 'seed');
console.log(`seed ${seed}`);
let good = true;
for (const name of positionals.length > 0 ? positionals : Object.keys(targets))
  good = (await run(name, seed)) && good;
process.exitCode = good ? 0 : 1;
