import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface StoppingFront extends AsyncDisposable {
  /** `127.0.0.1:PORT`, in place of the registry's. */
  readonly host: string;
  /** The Range headers of the requests for large blobs, in their order. */
  readonly ranges: readonly (string | undefined)[];
  /** From now on it stops nowhere. */
  goOn(): void;
}

/** A registry behind a front that sends only so many bytes of a blob, and then nothing more, and does not end either. */
export async function stoppingFront(registry: string, afterBytes: number): Promise<StoppingFront> {
  const ranges: (string | undefined)[] = [];
  let stops = true;
  const server = createServer((asked, answer) => {
    const { method, url, headers } = asked;
    const onward = request(`http://${registry}${url}`, { method, headers }, (found) => {
      answer.writeHead(found.statusCode ?? 502, found.headers);
      const isLarge = url?.includes('/blobs/') && Number(found.headers['content-length']) > 1_000_000;
      if (!isLarge || method !== 'GET') return void found.pipe(answer);
      ranges.push(headers.range);
      if (!stops) return void found.pipe(answer);
      let left = afterBytes;
      found.on('data', (chunk: Buffer) => {
        answer.write(chunk.subarray(0, left));
        left -= Math.min(left, chunk.length);
      });
    });
    onward.on('error', () => answer.destroy());
    asked.pipe(onward);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    ranges,
    goOn: () => {
      stops = false;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
