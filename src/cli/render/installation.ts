import type { Installation, StoredValue } from '../../state/index.ts';
import type { Style } from '../types.ts';
import type { ShownRun } from './run.ts';
import { properties, section, table } from './table.ts';
import { formatAge } from './units.ts';

export const hidden = '******';
/** In place of a value whose key is gone. */
export const lostText = '(lost: its key is gone)';

/** As its record says, but for what its last run came to, which may be that its process is gone. */
export type ShownInstallation = Omit<Installation, 'status'> & {
  readonly status: Omit<Installation['status'], 'resultStatus'> & {
    readonly resultStatus?: ShownRun['state'];
  };
};

/** `defined`, `installed` or `uninstalled`, by Porter's comparison of the two times. */
export function stateOf(installation: ShownInstallation): string {
  const { installed, uninstalled } = installation.status;
  if (uninstalled !== undefined && (installed === undefined || uninstalled >= installed)) {
    return 'uninstalled';
  }
  return installed === undefined ? 'defined' : 'installed';
}

/** `succeeded`, `failed`, …, or what goes on: `installing`, `running test`. */
export function statusOf(installation: ShownInstallation): string {
  const { resultStatus, action } = installation.status;
  if (resultStatus !== 'running' && resultStatus !== 'pending') {
    return resultStatus ?? '';
  }
  const verbs: Readonly<Record<string, string>> = {
    install: 'installing',
    upgrade: 'upgrading',
    uninstall: 'uninstalling',
  };
  return verbs[action ?? ''] ?? `running ${action ?? ''}`;
}

export function typeOf(value: unknown): string {
  if (value === null || value === undefined) {
    return 'unknown';
  }
  if (typeof value === 'number') {
    return Number.isInteger(value) ? 'integer' : 'number';
  }
  return Array.isArray(value) ? 'array' : typeof value;
}

/** Porter's keys in Porter's order; `lastRun`, `credentialSources` and `bundle.file` are ours. */
export function installationJson(
  installation: ShownInstallation,
  lastRun?: ShownRun,
): Record<string, unknown> {
  const { status, parameters, labels, custom } = installation;
  const { created, modified } = status;
  return {
    schemaType: 'Installation',
    schemaVersion: '1.0.2',
    id: installation.id,
    name: installation.name,
    namespace: installation.namespace,
    ...(stateOf(installation) === 'uninstalled' ? { uninstalled: true } : {}),
    bundle: installation.bundle,
    ...(isEmpty(custom) ? {} : { custom }),
    ...(isEmpty(labels) ? {} : { labels }),
    ...(isEmpty(parameters)
      ? {}
      : {
          parameters: Object.fromEntries(
            Object.entries(parameters).map(([name, value]) => [name, shown(value)]),
          ),
        }),
    ...(isEmpty(installation.credentialSources) ? {} : { credentialSources: installation.credentialSources }),
    status: {
      runId: status.runId ?? '',
      action: status.action ?? '',
      resultId: status.resultId ?? '',
      resultStatus: status.resultStatus ?? '',
      created,
      modified,
      installed: status.installed ?? null,
      uninstalled: status.uninstalled ?? null,
      bundleReference: status.bundleReference ?? '',
      bundleVersion: status.bundleVersion ?? '',
      bundleDigest: status.bundleDigest ?? '',
    },
    _calculated: {
      resolvedParameters: Object.entries(parameters)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, value]) => ({
          name,
          type: typeOfStored(value),
          sensitive: value.sensitive,
          value: shown(value),
        })),
      displayInstallationState: stateOf(installation),
      displayInstallationStatus: statusOf(installation),
    },
    ...(lastRun === undefined ? {} : { lastRun: lastRunJson(lastRun) }),
  };
}

function lastRunJson(run: ShownRun): Record<string, unknown> {
  const failed = run.steps.filter((step) => ['failed', 'errored', 'aborted', 'unknown'].includes(step.state));
  return {
    id: run.id,
    action: run.action,
    state: run.state,
    ...(run.errorCode === undefined ? {} : { errorCode: run.errorCode }),
    ...(run.message === undefined ? {} : { message: run.message }),
    failedSteps: failed.map(({ id, state, exitCode }) => ({
      id,
      state,
      ...(exitCode === undefined ? {} : { exitCode }),
    })),
  };
}

function typeOfStored(stored: StoredValue): string {
  return stored.lostKey === undefined ? typeOf(stored.value) : 'unknown';
}

/** Bytes, as file parameters have them, are base64. */
export function shown(stored: StoredValue): unknown {
  // Not even read: the key of one that is hidden may be gone.
  if (stored.sensitive) return stored.lostKey === undefined ? hidden : lostText;
  const { value } = stored;
  return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value;
}

function isEmpty(record: object): boolean {
  return Object.keys(record).length === 0;
}

export function installationTable(installations: readonly ShownInstallation[], nowMs: number): string {
  if (installations.length === 0) {
    return 'no installations\n';
  }
  return table(
    ['NAMESPACE', 'NAME', 'VERSION', 'STATE', 'STATUS', 'MODIFIED'],
    installations.map((installation) => [
      installation.namespace,
      installation.name,
      installation.status.bundleVersion ?? installation.bundle.version ?? '',
      stateOf(installation),
      statusOf(installation),
      formatAge(installation.status.modified, nowMs),
    ]),
  );
}

export function installationText(
  installation: ShownInstallation,
  lastRun: ShownRun | undefined,
  _style: Style,
): string {
  const { status, bundle } = installation;
  const failed = lastRun?.steps.find((step) => step.state === 'failed' || step.state === 'errored');
  const parameters = Object.entries(installation.parameters).sort(([a], [b]) => (a < b ? -1 : 1));
  return [
    properties([
      ['Name', installation.name],
      ['Namespace', installation.namespace === '' ? undefined : installation.namespace],
      ['Created', status.created],
      ['Modified', status.modified],
      ['State', stateOf(installation)],
    ]),
    section(
      'Bundle',
      properties([
        ['Repository', bundle.repository],
        ['File', bundle.file],
        ['Version', status.bundleVersion ?? bundle.version],
        ['Digest', status.bundleDigest ?? bundle.digest],
      ]),
    ),
    section('Labels', properties(Object.entries(installation.labels))),
    parameters.length === 0
      ? ''
      : section(
          'Parameters',
          table(
            ['NAME', 'TYPE', 'VALUE'],
            parameters.map(([name, value]) => [name, typeOfStored(value), cellOf(shown(value))]),
          ),
        ),
    section('Credentials', properties(Object.entries(installation.credentialSources))),
    section(
      'Status',
      properties([
        ['Last action', status.action],
        ['Status', statusOf(installation)],
        ['Run', status.runId],
        [
          'Failed step',
          failed === undefined
            ? undefined
            : `${failed.id}${failed.exitCode === undefined ? '' : ` with exit code ${failed.exitCode}`}`,
        ],
        ['Message', lastRun?.message],
      ]),
    ),
  ].join('');
}

/** A value for a table: short, on one line. */
export function cellOf(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value ?? null);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}
