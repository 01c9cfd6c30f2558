import type { Json } from '../document/index.ts';
import type { KnownValue } from '../plan/index.ts';
import type { OutputRecord, StateStore } from '../state/index.ts';

/** The installation's last outputs, but for those that the runs `except` wrote, as values for expressions. */
export async function knownOutputs(
  state: StateStore,
  installationId: string | undefined,
  except: readonly string[] = [],
): Promise<ReadonlyMap<string, KnownValue>> {
  if (installationId === undefined) return new Map();
  const records = await state.latestOutputs(installationId, except);
  return new Map(
    records.filter((record) => record.lostKey === undefined).map((record) => [record.name, asValue(record)]),
  );
}

function asValue(record: OutputRecord): KnownValue {
  const bytes = record.value;
  const text = Buffer.from(bytes).toString('utf8');
  const json =
    record.contentType === 'json'
      ? (JSON.parse(text) as Json)
      : record.contentType === 'binary'
        ? Buffer.from(bytes).toString('base64')
        : text;
  return { json, bytes, sensitive: record.sensitive };
}
