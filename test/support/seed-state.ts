import { rm } from 'node:fs/promises';
import { type Installation, openState, type Run } from '../../src/state/index.ts';

const day = 86_400_000;
const start = Date.UTC(2026, 0, 1);

function time(days: number): string {
  return new Date(start + days * day).toISOString();
}

export interface Seeded {
  /** The first run of the first installation; a later one has other outputs and logs. */
  readonly runId: string;
  readonly lastRunId: string;
}

/** A state folder with installations `one` (twice: global and in `dev`), `two` and `three`, with runs and outputs. */
export async function seedState(directory: string): Promise<Seeded> {
  await rm(directory, { recursive: true, force: true });
  await using state = await openState({ directory });
  const runs: string[] = [];
  for (const [index, [name, namespace]] of [
    ['one', ''],
    ['two', ''],
    ['three', ''],
    ['one', 'dev'],
  ].entries() as Iterable<[number, [string, string]]>) {
    const id = `0000000000000000000000000${index}`;
    await state.putInstallation(installation({ id, name, namespace, index }));
    for (const count of name === 'one' && namespace === '' ? [0, 1] : [0]) {
      const run = runOf({
        id: `000000000000000000000001${index}${count}`,
        installationId: id,
        name,
        namespace,
        days: index + count,
      });
      await state.putRun(run);
      runs.push(run.id);
      await using log = await state.openLog(run.id);
      log.write(
        JSON.stringify({
          time: time(index),
          type: 'step.output',
          step: 'apply',
          stream: 'stdout',
          text: `hello ${name} ${namespace} ${count}\n`,
        }),
      );
      for (const output of [
        {
          name: 'url',
          sensitive: false,
          value: `https://${name}${namespace}.example/${count}`,
          contentType: 'text' as const,
        },
        { name: 'ports', sensitive: false, value: '[80,443]', contentType: 'json' as const },
        { name: 'token', sensitive: true, value: 'open sesame', contentType: 'text' as const },
      ]) {
        await state.putOutput({
          ...output,
          installationId: id,
          runId: run.id,
          value: Buffer.from(output.value),
          created: time(index + count),
        });
      }
    }
  }
  return { runId: runs[0] as string, lastRunId: runs[1] as string };
}

function installation(parts: { id: string; name: string; namespace: string; index: number }): Installation {
  const { index, ...key } = parts;
  return {
    ...key,
    labels: index === 0 ? { env: 'prod' } : {},
    custom: {},
    bundle: { version: `1.${index}.0`, file: `/bundles/${parts.name}/porter.yaml` },
    parameters: {
      region: { sensitive: false, value: 'eu' },
      replicas: { sensitive: false, value: 3 },
      password: { sensitive: true, value: 'open sesame' },
    },
    credentialSources: { kubeconfig: 'path' },
    status: {
      action: index === 1 ? 'upgrade' : 'install',
      runId: `000000000000000000000001${index}${index === 0 ? 1 : 0}`,
      resultId: `000000000000000000000001${index}${index === 0 ? 1 : 0}`,
      resultStatus: index === 2 ? 'failed' : 'succeeded',
      created: time(index),
      modified: time(index),
      ...(index === 2 ? {} : { installed: time(index) }),
      bundleVersion: `1.${index}.0`,
    },
  };
}

function runOf(parts: {
  id: string;
  installationId: string;
  name: string;
  namespace: string;
  days: number;
}): Run {
  const isBad = parts.name === 'three';
  return {
    id: parts.id,
    namespace: parts.namespace,
    installation: parts.name,
    installationId: parts.installationId,
    action: 'install',
    revision: parts.id,
    engine: 'fake',
    state: isBad ? 'failed' : 'succeeded',
    ...(isBad ? { message: 'step apply failed with exit code 3', errorCode: 'STEP_FAILED' } : {}),
    created: time(parts.days),
    started: time(parts.days),
    finished: new Date(start + parts.days * day + 3_200).toISOString(),
    plan: JSON.stringify({ bundle: { name: parts.name, version: '1.0.0' } }),
    bundleDigest: `sha256:${'a'.repeat(64)}`,
    parameters: { region: { sensitive: false, value: 'eu' } },
    steps: [
      {
        id: 'apply',
        index: 0,
        description: 'Apply',
        state: isBad ? 'failed' : 'succeeded',
        exitCode: isBad ? 3 : 0,
        image: 'localhost/tools@sha256:aaaa',
        startedAt: time(parts.days),
        finishedAt: new Date(start + parts.days * day + 3_000).toISOString(),
        attempts: [
          {
            number: 1,
            containerId: `${parts.id}-apply-1`,
            state: isBad ? 'failed' : 'succeeded',
            exitCode: isBad ? 3 : 0,
          },
        ],
      },
    ],
  };
}
