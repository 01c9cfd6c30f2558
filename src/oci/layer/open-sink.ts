import { GnuTarSink, hasGnuTar } from './gnu-tar.ts';
import { NodeSink } from './node-sink.ts';
import type { LayerSink } from './sink.ts';

/** The fastest writer that this host has. */
export async function openSink(directory: string): Promise<LayerSink> {
  return (await hasGnuTar()) ? new GnuTarSink(directory) : new NodeSink(directory);
}
