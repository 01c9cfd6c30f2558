import { createHash } from 'node:crypto';
import { dockerError } from '../errors.ts';
import { fileItem, gather, packItems } from '../tar.ts';
import { helperBinaries } from './binary.ts';

/** Where the helper stands in its own image and in steps' containers. */
export const HELPER_PATH = '/.skycap-helper';
const ROOT = { uid: 0, gid: 0 };

/** The static program for an architecture (GOARCH), or undefined. */
export function helperBinary(architecture: string): Buffer | undefined {
  const text = helperBinaries[architecture];
  return text === undefined ? undefined : Buffer.from(text, 'base64');
}

export interface HelperImage {
  /** Digest of the config, which is the id that a daemon gives it. */
  readonly id: string;
  readonly tag: string;
  /** A docker-archive for `POST /images/load`. */
  archive(): AsyncIterable<Uint8Array>;
}

/**
 * An image with the helper and nothing else. Equal programs give equal bytes, so the daemon keeps one.
 *
 * @throws ENGINE_DOCKER_IMAGE where there is no helper for the daemon's architecture
 */
export async function helperImage(architecture: string): Promise<HelperImage> {
  const binary = helperBinary(architecture);
  if (binary === undefined) {
    throw dockerError('ENGINE_DOCKER_IMAGE', `a Docker daemon on ${architecture} is not supported`, {
      hint: 'use a daemon on amd64 or arm64, or another engine with --engine',
    });
  }
  const layer = await join(packItems([fileItem(HELPER_PATH.slice(1), binary, { mode: 0o755, owner: ROOT })]));
  const config = Buffer.from(
    JSON.stringify({
      architecture,
      os: 'linux',
      config: { Entrypoint: [HELPER_PATH], Labels: { 'dev.skycap.role': 'helper' } },
      rootfs: { type: 'layers', diff_ids: [`sha256:${sha256(layer)}`] },
    }),
  );
  const hex = sha256(config);
  const tag = `skycap/helper:${hex.slice(0, 12)}`;
  const manifest = Buffer.from(
    JSON.stringify([{ Config: `${hex}.json`, RepoTags: [tag], Layers: ['layer.tar'] }]),
  );
  const file = (path: string, content: Buffer) => fileItem(path, content, { mode: 0o644, owner: ROOT });
  return {
    id: `sha256:${hex}`,
    tag,
    archive: () =>
      packItems([file(`${hex}.json`, config), file('layer.tar', layer), file('manifest.json', manifest)]),
  };
}

async function join(parts: AsyncIterable<Uint8Array>): Promise<Buffer> {
  return Buffer.concat(await gather(parts));
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
