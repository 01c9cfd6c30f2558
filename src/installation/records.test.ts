import { expect, it } from 'vitest';
import type { Installation, Run } from '../state/index.ts';
import { endedInstallation } from './records.ts';
import { isInstalled } from './rules.ts';

it('an installation is what its last action made it, whatever the clock says', () => {
  const run = (action: string) =>
    ({ action, state: 'succeeded', plan: '{"steps":[]}', steps: [] }) as unknown as Run;
  const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second));
  const status = { created: at(0).toISOString(), modified: at(0).toISOString() };
  let installation = { bundle: {}, status } as unknown as Installation;
  // Set back after each action, and not at all at the end.
  for (const [second, action] of [
    [50, 'install'],
    [40, 'uninstall'],
    [30, 'install'],
    [20, 'uninstall'],
    [55, 'install'],
    [55, 'uninstall'],
    [55, 'install'],
  ] as const) {
    installation = endedInstallation(installation, run(action), at(second));
    expect([second, isInstalled(installation)]).toEqual([second, action === 'install']);
    expect(installation.status.modified).toBe(at(second).toISOString());
  }
});
