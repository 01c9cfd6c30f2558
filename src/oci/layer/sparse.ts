import { invalid, overLimit } from './limits.ts';
import { type PaxRecords, parsePaxNumber } from './pax.ts';

/** GNU tar manual, "Storing Sparse Files". The old GNU type `S` is refused, as every image tool does. */
export interface SparseMap {
  readonly name: string | undefined;
  /** Size of the file with its holes. */
  readonly size: number;
  readonly segments: readonly { readonly offset: number; readonly length: number }[];
}

export type SparseVersion = '0' | '1.0';

const MAX_SEGMENTS = 65_536;
const ZEROS = Buffer.alloc(65_536);

export function sparseVersion(pax: PaxRecords | undefined): SparseVersion | undefined {
  if (pax === undefined) return undefined;
  const part = (name: string): string => pax.get(`GNU.sparse.${name}`)?.toString('latin1') ?? '';
  const version = `${part('major')}.${part('minor')}`;
  if (version === '1.0') return '1.0';
  // Versions 0.0 and 0.1 need not say so.
  if (['.', '0.0', '0.1'].includes(version) && pax.has('GNU.sparse.map')) return '0';
  for (const key of pax.keys()) {
    if (key.startsWith('GNU.sparse.')) throw invalid('it holds a sparse file of an unknown version');
  }
  return undefined;
}

export interface SparseInput {
  readonly pax: PaxRecords;
  /** Bytes of the stored body that are left. */
  readonly stored: () => number;
  readonly block: () => Promise<Buffer>;
  readonly maxBytes: number;
}

export async function dataMapBytes(version: SparseVersion, input: SparseInput): Promise<SparseMap> {
  const text = (key: string): string | undefined => input.pax.get(key)?.toString('latin1');
  const size = parsePaxNumber(
    // As Docker, where both are there.
    text('GNU.sparse.size') || text('GNU.sparse.realsize') || '',
    'GNU.sparse size',
  );
  if (size > input.maxBytes) throw overLimit(`a sparse file of ${size} bytes`);
  const numbers =
    version === '1.0'
      ? await inBody(input)
      : inRecord(text('GNU.sparse.map') ?? '', text('GNU.sparse.numblocks') ?? '');
  const name = text('GNU.sparse.name');
  if (name?.includes('\0')) throw invalid('the name of a sparse file holds a NUL');
  return { name: name === '' ? undefined : name, size, segments: segmentsOf(numbers, size, input.stored()) };
}

/** The count is a record of its own, without which GNU tar and Docker read no map. */
function inRecord(map: string, count: string): readonly number[] {
  // Docker then takes the stored bytes for the file, and GNU tar what follows for its body.
  if (map === '') throw invalid('a sparse map has no pieces');
  const numbers = map.split(',').map((part) => parsePaxNumber(part, 'GNU.sparse.map'));
  if (numbers.length % 2 !== 0) throw invalid('a sparse map has an odd count');
  if (parsePaxNumber(count, 'GNU.sparse.numblocks') * 2 !== numbers.length)
    throw invalid('a sparse map has more or fewer pieces than it says');
  return numbers;
}

async function inBody(input: SparseInput): Promise<readonly number[]> {
  let rest = '';
  const line = async (): Promise<number> => {
    for (;;) {
      const end = rest.indexOf('\n');
      if (end !== -1) {
        const value = rest.slice(0, end);
        rest = rest.slice(end + 1);
        return parsePaxNumber(value, 'sparse map');
      }
      rest += (await input.block()).toString('latin1');
    }
  };
  const count = await line();
  if (count > MAX_SEGMENTS) throw overLimit(`a sparse file of ${count} segments`);
  const numbers: number[] = [];
  for (let index = 0; index < count * 2; index++) numbers.push(await line());
  return numbers;
}

function segmentsOf(numbers: readonly number[], size: number, stored: number): SparseMap['segments'] {
  if (numbers.length / 2 > MAX_SEGMENTS) throw overLimit(`a sparse file of ${numbers.length / 2} segments`);
  const segments: { offset: number; length: number }[] = [];
  let end = 0;
  let data = 0;
  for (let index = 0; index < numbers.length; index += 2) {
    const offset = numbers[index] as number;
    const length = numbers[index + 1] as number;
    if (offset < end || offset + length > size) throw invalid('a sparse map overlaps or runs past the end');
    end = offset + length;
    data += length;
    segments.push({ offset, length });
  }
  if (data !== stored) throw invalid('a sparse map does not fit its data');
  return segments;
}

export async function* readSparse(
  map: SparseMap,
  some: (max: number) => Promise<Buffer | undefined>,
): AsyncGenerator<Buffer> {
  let at = 0;
  for (const segment of map.segments) {
    yield* zeros(segment.offset - at);
    let left = segment.length;
    while (left > 0) {
      const part = await some(left);
      if (part === undefined) throw invalid('it ends inside a sparse file');
      left -= part.length;
      yield part;
    }
    at = segment.offset + segment.length;
  }
  yield* zeros(map.size - at);
}

function* zeros(count: number): Generator<Buffer> {
  for (let left = count; left > 0; left -= ZEROS.length)
    yield ZEROS.subarray(0, Math.min(left, ZEROS.length));
}
