import { type ImageConfig, parseImageConfig } from '../../../src/oci/image/parse.ts';
import { mutateJson } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { Case, Target } from '../types.ts';

const HIGHEST_ID = 2 ** 31 - 1;

type Json = Record<string, unknown>;

/** The first byte of an input is the number of layers that the manifest has. */
function make(random: Random): Case {
  const layers = random.below(4);
  const id = random.pick([0, 1000, HIGHEST_ID, HIGHEST_ID + 1]);
  const user = random.pick(['', 'root', 'app:staff', `${id}`, `0:${id}`, `+${id}`, `user:${id}`]);
  const tooHigh = user.includes(String(HIGHEST_ID + 1));
  const run = {
    Entrypoint: random.pick([null, [], ['/run', 'é']]),
    Cmd: random.pick([null, ['a', '']]),
    Env: random.pick([null, [], ['A=b', 'PATH=/bin', 'EMPTY=']]),
    User: user,
    WorkingDir: random.pick(['', '/', '/app']),
    Labels: random.pick([null, { a: 'b', gone: null }]),
    ...(random.chance(0.3) ? { StopSignal: random.pick(['', 'SIGTERM']) } : {}),
  };
  const config = random.chance(0.1) ? null : run;
  const steps = Array.from({ length: layers }, () => ({ created_by: 'RUN x' }));
  const document: Json = {
    architecture: random.pick(['amd64', 'arm64', 'aarch64', 'arm']),
    os: 'linux',
    ...(random.chance(0.2) ? { variant: random.pick(['', 'v8', 'v6']) } : {}),
    ...(random.chance(0.2) ? { 'os.version': random.pick(['', '10.0']) } : {}),
    ...(random.chance(0.9) ? { config } : {}),
    rootfs: {
      type: 'layers',
      diff_ids: Array.from({ length: layers }, () => `sha256:${random.text('0123456789abcdef', 64)}`),
    },
    ...(random.chance(0.5) ? { history: [...steps, { empty_layer: true }] } : {}),
    ...(random.chance(0.2) ? { future: { a: [1] } } : {}),
  };
  const off = random.chance(0.15) ? random.pick([-1, 1]) : 0;
  const bytes = Buffer.concat([
    Buffer.from([Math.max(layers + off, 0)]),
    Buffer.from(JSON.stringify(document)),
  ]);
  const counts = Math.max(layers + off, 0) === layers;
  return { bytes, accepted: counts && !(tooHigh && config !== null && 'config' in document) };
}

function judge(value: ImageConfig): string | undefined {
  const { run, diffIds, platform } = value;
  for (const part of run.user.split(':')) {
    if (
      /^[+-]?[0-9]+$/.test(part) &&
      !(BigInt(part.replace('+', '')) >= 0n && BigInt(part.replace('+', '')) <= 0x7fffffffn)
    )
      return `it has the user ${run.user}`;
  }
  if (run.env.some((one) => (one === '' ? false : /^=|\0/.test(one))))
    return 'it has a variable without a name';
  if (!diffIds.every((one) => /^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$/.test(one)))
    return 'it has no digests';
  const document = {
    ...value.raw,
    os: platform.os,
    architecture: platform.architecture,
    variant: platform.variant ?? null,
    'os.version': platform.osVersion ?? null,
    config: {
      Entrypoint: run.entrypoint,
      Cmd: run.cmd,
      Env: run.env,
      User: run.user,
      WorkingDir: run.workingDir,
      Labels: run.labels,
      StopSignal: run.stopSignal ?? null,
    },
    rootfs: { type: 'layers', diff_ids: diffIds },
  };
  const again = parseImageConfig(Buffer.from(JSON.stringify(document)), diffIds.length);
  return canonical(again) === canonical(value) ? undefined : `it comes back as ${canonical(again)}`;
}

function canonical({ platform, run, diffIds }: ImageConfig): string {
  return JSON.stringify([platform, run, diffIds]);
}

export const target: Target<ImageConfig> = {
  name: 'config',
  judgedBy: 'limits known on both sides; the document written again and read',
  sources: {
    'src/oci/image/parse.ts': ['parsePlatformObject', 'parseImageConfig', 'runConfig'],
    'src/oci/names/user.ts': 'all',
    'src/oci/image/json.ts': 'all',
  },
  planted: {
    file: 'src/oci/names/user.ts',
    from: 'Number(part) <= MAX_INT32',
    to: 'Number(part) <= MAX_INT32 + 1',
  },
  make,
  seeds: () =>
    [
      '{',
      '[]',
      '{"rootfs":{"type":"x"}}',
      '{"rootfs":{"type":"layers","diff_ids":["x"]}}',
      '"\xff"',
      '{"a":1,"a":1}',
    ].map((text) => Buffer.from(`\x01${text}`, 'latin1')),
  mutate: (bytes, random, other) =>
    Buffer.concat([bytes.subarray(0, 1), mutateJson(bytes.subarray(1), random, other.subarray(1))]),
  parse: (bytes) => parseImageConfig(bytes.subarray(1), bytes[0] ?? 0),
  canonical,
  judge,
};
