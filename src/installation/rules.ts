import { didYouMean } from '../document/index.ts';
import type { Plan } from '../plan/index.ts';
import type { Installation, Run } from '../state/index.ts';
import { installationError } from './errors.ts';

export interface ActionRules {
  readonly action: string;
  readonly modifies: boolean;
  readonly stateless: boolean;
  readonly force: boolean;
}

/** Installed, and not uninstalled since. */
export function isInstalled(installation: Installation | undefined): boolean {
  if (installation === undefined) return false;
  const { installed, uninstalled } = installation.status;
  return installed !== undefined && (uninstalled === undefined || uninstalled < installed);
}

/** By its record it goes on. */
export function isOpen(run: Run): boolean {
  return run.state === 'running' || run.state === 'pending';
}

/**
 * When an action may run at all: Porter's rules (install once, upgrade what is installed, invoke without an
 * installation only what leaves none behind); `--force` overrides them.
 *
 * @throws INSTALLATION_EXISTS, INSTALLATION_NOT_INSTALLED, INSTALLATION_NOT_FOUND
 */
export function checkAllowed(installation: Installation | undefined, name: string, rules: ActionRules): void {
  switch (rules.action) {
    case 'install':
      if (!isInstalled(installation) || rules.force) return;
      throw installationError('INSTALLATION_EXISTS', `${name} is installed already`, {
        hint: 'change it with: skycap upgrade; or name another installation; --force installs over it',
      });
    case 'upgrade':
      if (isInstalled(installation) || (rules.force && installation !== undefined)) return;
      throw installationError('INSTALLATION_NOT_INSTALLED', notInstalled(name, installation), {
        hint:
          installation?.status.resultStatus === 'failed'
            ? 'go on where it failed with: skycap install --resume'
            : 'begin with: skycap install',
      });
    case 'uninstall':
      if (installation !== undefined) return;
      throw installationError('INSTALLATION_NOT_FOUND', `there is no installation ${name}`, {
        hint: 'list them with: skycap list',
      });
    default:
      if (installation !== undefined || (rules.stateless && !rules.modifies) || rules.force) return;
      throw installationError(
        'INSTALLATION_NOT_FOUND',
        `there is no installation ${name}, and ${rules.action} works on one`,
        {
          hint: 'install it first, declare the action stateless and modifies: false, or run it all the same with --force',
        },
      );
  }
}

/** @throws INSTALLATION_NOT_FOUND */
export function checkExists(installation: Installation | undefined, name: string, what: string): void {
  if (installation !== undefined) return;
  throw installationError(
    'INSTALLATION_NOT_FOUND',
    `there is no installation ${name}, and ${what} works on one`,
    {
      hint: 'install it first; skycap list shows what there is',
    },
  );
}

/** Its last action was an uninstall that succeeded (Porter's rule for deleting its records). */
export function isUninstalled(installation: Installation | undefined): boolean {
  const status = installation?.status;
  return status?.action === 'uninstall' && status.resultStatus === 'succeeded';
}

function notInstalled(name: string, installation: Installation | undefined): string {
  if (installation === undefined) return `there is no installation ${name}`;
  const { resultStatus, action } = installation.status;
  return `${name} is not installed${resultStatus === undefined ? '' : `: its last ${action ?? 'run'} ${resultStatus}`}`;
}

const namePattern = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,127})$/;

/** Names become parts of paths and ids. @throws INSTALLATION_NAME */
export function checkName(kind: 'installation' | 'namespace', text: string): void {
  if (namePattern.test(text) || (kind === 'namespace' && text === '')) return;
  throw installationError(
    'INSTALLATION_NAME',
    `${JSON.stringify(text)} is no name for ${kind === 'namespace' ? 'a namespace' : 'an installation'}`,
    {
      hint: 'use up to 128 letters, digits, dots, dashes and underscores, a letter or digit first',
    },
  );
}

const mostNamed = 20;

/** With the step that was probably meant, and those that there are. */
export function noSuchStep(plan: Plan, wanted: string, message: string): Error {
  const ids = plan.steps.map((step) => step.id);
  const near = didYouMean(wanted, new Set([...ids, ...plan.steps.map((step) => step.name)]));
  const more = ids.length > mostNamed ? ` and ${ids.length - mostNamed} more` : '';
  const there = ids.length === 0 ? 'it has none' : `it has ${ids.slice(0, mostNamed).join(', ')}${more}`;
  return installationError('STEP_NOT_FOUND_IN_PLAN', message, {
    hint: near === undefined ? there : `did you mean ${near}? ${there}`,
  });
}
