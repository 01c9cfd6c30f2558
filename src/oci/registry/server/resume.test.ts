import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { asking, collect, type ServedWorld, servedWorld } from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';

let world: ServedWorld;
const cleanups: (() => unknown)[] = [];
beforeEach(async () => {
  world = await servedWorld();
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  await world[Symbol.asyncDispose]();
});

const bytes = Buffer.from(Array.from({ length: 3_000_000 }, (_, index) => (index * 7) % 251));
const blob = { mediaType: 'x', digest: digestOf(bytes), size: bytes.length };

/** Passes connections on, and cuts the one that has brought so many bytes, once. */
async function cutting(port: number, after: number): Promise<number> {
  let isCut = false;
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        near.destroy();
        far.destroy();
      });
    }
    far.pipe(near);
    let passed = 0;
    near.on('data', (part: Buffer) => {
      if (!isCut && passed + part.length >= after) {
        isCut = true;
        // What came before the cut arrives.
        far.end(part.subarray(0, after - passed));
        near.destroy();
        return;
      }
      passed += part.length;
      if (!far.write(part)) {
        near.pause();
        far.once('drain', () => near.resume());
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as AddressInfo).port;
}

it('R75 R77 what arrived of a chunk before its connection was cut is not sent again to a registry that kept it', async () => {
  const seen: string[] = [];
  const served = await world.start({
    writable: true,
    onRequest: ({ method, status }) => void seen.push(`${method} ${status}`),
  });
  const port = await cutting(served.port, 1_500_000);
  await using asked = asking({ chunkSize: 1_000_000 });
  const source = async function* (offset: number): AsyncGenerator<Uint8Array> {
    for (let at = offset; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
  };
  const at = asked.at(`127.0.0.1:${port}`);
  expect(await asked.client.putBlob(at, blob, source, asked.options)).toBe('uploaded');
  const there = await asked.client.getBlob(at, blob, 0, asked.options);
  expect((await collect(there)).equals(bytes)).toBe(true);
  // One upload from its beginning to its end, asked in between how far it is.
  expect(seen.filter((line) => line.startsWith('POST'))).toEqual(['POST 202']);
  expect(seen).toContain('GET 204');
  expect(seen.filter((line) => line.startsWith('PUT'))).toEqual(['PUT 201']);
});

it('R78 an upload that the registry lost with its process is begun anew with the one that takes its place', async () => {
  const seen: string[] = [];
  const onRequest = ({ method, status }: { readonly method: string; readonly status: number }): void =>
    void seen.push(`${method} ${status}`);
  const { port, host } = await world.start({ writable: true, onRequest });
  await using asked = asking({ chunkSize: 1_000_000 });
  let isRestarted = false;
  const source = async function* (offset: number): AsyncGenerator<Uint8Array> {
    for (let at = offset; at < bytes.length; at += 65_536) {
      yield bytes.subarray(at, at + 65_536);
      if (isRestarted || at < 1_500_000) continue;
      isRestarted = true;
      await world.start({ writable: true, port, onRequest });
    }
  };
  expect(await asked.client.putBlob(asked.at(host), blob, source, asked.options)).toBe('uploaded');
  const there = await asked.client.getBlob(asked.at(host), blob, 0, asked.options);
  expect((await collect(there)).equals(bytes)).toBe(true);
  expect(seen.filter((line) => line.startsWith('POST'))).toEqual(['POST 202', 'POST 202']);
});
