import { userInfo } from 'node:os';
import { versions } from 'node:process';
import { compose } from '../compose.ts';
import type { Finding } from '../doctor/diagnose.ts';
import { paint } from '../render/style.ts';
import { table } from '../render/table.ts';
import type { Command, Style } from '../types.ts';

export const command: Command = {
  path: 'doctor',
  summary: 'check what this machine has and lacks',
  description:
    'Knows the troubles of hosts whose own messages do not name them, and says what mends each. Exit code 40 if no engine can run a step.',
  arguments: [],
  flags: [],
  examples: [{ line: 'skycap doctor -o json', does: 'for a report of a fault' }],
  async run(_invocation, context) {
    const { diagnose, hasEngine } = await import('../doctor/diagnose.ts');
    const { gatherFacts } = await import('../doctor/facts.ts');
    await using rooms = compose(context);
    const { settings } = await rooms.settings();
    const facts = await gatherFacts({
      uid: context.host.uid,
      user: accountName() ?? String(context.host.uid),
      path: context.host.env.PATH ?? '',
      nodeVersion: versions.node,
      dockerHost: settings.dockerHost,
      directories: [
        { name: 'state', path: settings.state.directory },
        { name: 'store', path: settings.store.directory },
        { name: 'runtime', path: settings.runtimeDirectory },
      ],
    });
    const findings = diagnose(facts);
    const { engineStrategies } = await (await import('../../engine/index.ts')).loadDiscovery();
    const gaps = engineStrategies.map(({ name, gaps }) => ({ engine: name, gaps }));
    await context.result({
      data: { ready: hasEngine(facts), findings, gaps },
      text: (style) => findingsText(findings, style) + gaps.map(gapsText).join(''),
    });
    return hasEngine(facts) ? 0 : 40;
  },
};

function accountName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}

function gapsText({ engine, gaps }: { readonly engine: string; readonly gaps: readonly string[] }): string {
  return `\n${engine} does not keep:\n${gaps.map((gap) => `- ${gap}\n`).join('')}`;
}

function findingsText(findings: readonly Finding[], style: Style): string {
  const colors = { ok: 'green', warning: 'yellow', problem: 'red' } as const;
  const lines = table(
    ['STATUS', 'CHECK', 'WHAT'],
    findings.map(({ status, check, message }) => [status, check, message]),
  )
    .split('\n')
    .filter((line) => line !== '');
  return lines
    .flatMap((line, index) => {
      const finding = findings[index - 1];
      if (finding === undefined) {
        return [line];
      }
      const painted = line.replace(finding.status, paint(style, colors[finding.status], finding.status));
      return finding.fix === undefined ? [painted] : [painted, `${' '.repeat(10)}fix: ${finding.fix}`];
    })
    .map((line) => `${line}\n`)
    .join('');
}
