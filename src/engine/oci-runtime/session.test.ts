import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ignoreEvents } from '../../kernel/index.ts';
import type { PinnedImage } from '../../oci/index.ts';
import { digestOf } from '../../oci/names/index.ts';
import type { SessionHost } from './create.ts';
import { type Directories, runLayout } from './layout.ts';
import { RuntimeSession } from './session.ts';

const imageOf = (layers: number): PinnedImage => {
  const layer = { digest: digestOf('x'), diffId: digestOf('x'), size: 1, mediaType: 'application/x-tar' };
  return { layers: Array.from({ length: layers }, () => layer) } as Partial<PinnedImage> as PinnedImage;
};

it('refuses an image of too many layers before the first image is unpacked', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'oci-session-'));
  try {
    const directories = { state: join(folder, 'state'), runtime: join(folder, 'runtime') } as Directories;
    const layout = runLayout(directories, 'r');
    // Neither a store nor programs: nothing of them is asked for.
    const host = { directories } as Partial<SessionHost> as SessionHost;
    const spec = {
      runId: 'r',
      installationId: 'i',
      images: { tools: imageOf(2), deep: imageOf(501) },
      network: false,
    };
    const operation = { signal: new AbortController().signal, emit: ignoreEvents };

    await expect(new RuntimeSession(host, spec, layout, operation).ready()).rejects.toMatchObject({
      code: 'ENGINE_START_FAILED',
      message: 'image deep has 501 layers, and overlayfs takes 500 at most',
    });
    expect(existsSync(layout.control)).toBe(false);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
