import type { Installation, OutputRecord, Run, StepRecord } from '../port.ts';

export const T0 = '2026-01-02T03:04:05.000Z';

export function anInstallation(name: string, more: Partial<Installation> = {}): Installation {
  return {
    id: `INST-${name}`,
    namespace: 'dev',
    name,
    labels: {},
    custom: {},
    bundle: { file: 'porter.yaml' },
    parameters: {},
    credentialSources: {},
    status: { created: T0, modified: T0 },
    ...more,
  };
}

export function aRun(id: string, more: Partial<Run> = {}): Run {
  return {
    id,
    namespace: 'dev',
    installation: 'app',
    installationId: 'INST-app',
    action: 'install',
    revision: `R-${id}`,
    engine: 'fake',
    state: 'running',
    created: T0,
    plan: '{"steps":[]}',
    bundleDigest: 'sha256:00',
    parameters: {},
    steps: [],
    ...more,
  };
}

export function anOutput(runId: string, name: string, more: Partial<OutputRecord> = {}): OutputRecord {
  const value = Buffer.from(`${name} of ${runId}`);
  return {
    installationId: 'INST-app',
    runId,
    name,
    sensitive: false,
    contentType: 'text',
    value,
    created: T0,
    ...more,
  };
}

export function aStep(id: string, index: number, more: Partial<StepRecord> = {}): StepRecord {
  return { id, index, description: `step ${id}`, state: 'pending', attempts: [], ...more };
}

export async function* pieces(...parts: readonly (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield typeof part === 'string' ? Buffer.from(part) : part;
}

export async function joined(bytes: AsyncIterable<Uint8Array> | undefined): Promise<Buffer | undefined> {
  if (bytes === undefined) return undefined;
  const parts: Uint8Array[] = [];
  for await (const part of bytes) parts.push(part);
  return Buffer.concat(parts);
}

export async function linesOf(lines: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = [];
  for await (const line of lines) all.push(line);
  return all;
}
