import { describe, expect, it } from 'vitest';
import { HttpFailure } from '../../../kernel/http/index.ts';
import { type Calling, type Canned, calling, collect } from '../../../testkit/registry/index.ts';
import { ociError } from '../../errors.ts';
import { digestOf } from '../../names/index.ts';
import type { Descriptor } from '../../types.ts';
import { askInTurn, openBlobInTurn, type Place } from './mirrors.ts';

const MIB = 1024 * 1024;
const missing = ociError('REGISTRY_NOT_FOUND', 'it is not here', { hint: 'do' });

/** Places `m0`, `m1` … with what each answers; the last is the registry itself. */
function places(replies: readonly (readonly (Canned | Error)[])[], signal = new AbortController().signal) {
  const worlds = replies.map((each) => calling(each));
  const events: unknown[] = [];
  const list = worlds.map(
    ({ target }, at): Place => ({
      name: `m${at}`,
      transfer: { signal, emit: (event) => void events.push(event) },
      target: () => ({ ...target, lend: true }),
    }),
  );
  return { list, events, asked: () => worlds.map(({ calls }: Calling) => calls.length), worlds };
}
const passed = (name: string, message: string): object => ({
  type: 'registry.warning',
  registry: name,
  message: `mirror passed over: ${message}`,
});

describe('places are asked in turn', () => {
  it('until one has an answer, and it is said which', async () => {
    const { list, events } = places([[], [], []]);
    const said: boolean[] = [];
    const outcome = await askInTurn(list, async (_, isMirror) => {
      said.push(isMirror);
      return said.length === 2 ? 'here' : undefined;
    });
    expect(outcome).toEqual({ answer: 'here', at: 1 });
    expect([said, events]).toEqual([[true, true], []]);
  });

  it('and the last has the last word, whatever it is', async () => {
    const { list, events } = places([[], []]);
    const said: boolean[] = [];
    const none = await askInTurn(list, async (_, isMirror) => {
      said.push(isMirror);
      return undefined;
    });
    expect([none, said]).toEqual([{ answer: undefined, at: 1 }, [true, false]]);
    const failing = askInTurn(list, async () => {
      throw missing;
    });
    await expect(failing).rejects.toBe(missing);
    expect(events).toEqual([passed('m0', 'it is not here')]);
  });

  it('but a fault of a program or the signal ends that', async () => {
    const fault = new TypeError('no');
    const { list, events } = places([[], []]);
    await expect(
      askInTurn(list, async () => {
        throw fault;
      }),
    ).rejects.toBe(fault);
    const stopped = places([[], []], AbortSignal.abort(new Error('enough')));
    await expect(
      askInTurn(stopped.list, async () => {
        throw missing;
      }),
    ).rejects.toThrow('enough');
    expect([events, stopped.events]).toEqual([[], []]);
  });

  it('and what is wrong with how one is configured is its own fault', async () => {
    const { list, events } = places([[], []]);
    const broken = {
      ...(list[0] as Place),
      target: () => {
        throw missing;
      },
    };
    const found = await askInTurn([broken, list[1] as Place], async () => 'here');
    expect(found).toEqual({ answer: 'here', at: 1 });
    expect(events).toHaveLength(1);
  });
});

describe('a blob of several places', () => {
  const bytes = (size: number): Buffer => Buffer.alloc(size, 'abcdefg');
  const blobOf = (content: Buffer): Descriptor => ({
    mediaType: 'x',
    digest: digestOf(content),
    size: content.length,
  });

  it('of up to a mebibyte is checked before it is given, a larger one is not', async () => {
    const small = bytes(MIB);
    const lying = Buffer.from(small).fill('x', 0, 9);
    const held = places([[{ body: lying }], [{ body: small }]]);
    const body = await openBlobInTurn(held.list, blobOf(small), 0);
    expect(body.mirror).toBeUndefined();
    expect((await collect(body)).equals(small)).toBe(true);
    const { digest } = blobOf(small);
    expect(held.events).toEqual([
      passed(
        'm0',
        `r.test/team/app:1: r.test sent a blob with digest ${digestOf(lying)} instead of ${digest}`,
      ),
    ]);
    // What is held is not lent: a lent buffer would be written over.
    expect(held.worlds.map(({ calls }) => calls[0]?.lend)).toEqual([undefined, true]);
    const large = bytes(MIB + 1);
    const streamed = places([[{ body: Buffer.from(large).fill('x', 0, 9) }], [{ body: large }]]);
    const other = await openBlobInTurn(streamed.list, blobOf(large), 0);
    expect(other.mirror).toBe('m0');
    expect((await collect(other)).equals(large)).toBe(false);
    expect(streamed.asked()).toEqual([1, 0]);
  });

  it('that is held is given whole, also from a mirror, with its own kind of digest', async () => {
    const content = bytes(2500);
    const blob = { ...blobOf(content), digest: digestOf(content, 'sha512') };
    const { list, asked } = places([[{ body: content }], []]);
    const body = await openBlobInTurn(list, blob, 0);
    expect(body.mirror).toBe('m0');
    expect(await collect(body)).toEqual(content);
    expect(asked()).toEqual([1, 0]);
  });

  it('from the middle on is not held', async () => {
    const content = bytes(2500);
    const headers = { 'content-range': 'bytes 10-2499/2500' };
    const reply = { status: 206, headers, body: Buffer.from(content).fill('x').subarray(10) };
    const { list } = places([[reply], []]);
    expect(await collect(await openBlobInTurn(list, blobOf(content), 10))).toEqual(reply.body);
  });

  it('goes on at the byte that is missing, at the next place that has it', async () => {
    const content = bytes(MIB + 5000);
    const tls = new HttpFailure('tls', 'torn');
    const headers = { 'content-range': `bytes 2000-${content.length - 1}/*` };
    const rest = { status: 206, headers, body: content.subarray(2000) };
    const { list, events, asked } = places([
      [{ body: content.subarray(0, 2000), breaks: tls }],
      [missing],
      [rest],
    ]);
    const body = await openBlobInTurn(list, blobOf(content), 0);
    expect(body.mirror).toBe('m0');
    expect((await collect(body)).equals(content)).toBe(true);
    expect(asked()).toEqual([1, 1, 1]);
    expect(events).toEqual([
      passed('m0', `r.test/team/app:1, blob ${blobOf(content).digest}: torn`),
      passed('m1', 'it is not here'),
    ]);
  });

  it('that breaks at the registry itself is broken', async () => {
    const content = bytes(MIB + 5000);
    const tls = new HttpFailure('tls', 'torn');
    const { list, events } = places([
      [{ body: content.subarray(0, 2000), breaks: tls }],
      [{ status: 206, headers: { 'content-range': 'bytes 2000-9/*' }, body: 'x', breaks: tls }],
    ]);
    const body = await openBlobInTurn(list, blobOf(content), 0);
    await expect(collect(body)).rejects.toMatchObject({ code: 'REGISTRY_TLS' });
    expect(events).toHaveLength(1);
  });
});
