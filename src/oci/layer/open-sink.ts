import { GnuTarSink, hasGnuTar } from './gnu-tar.ts';
import { NodeSink } from './node-sink.ts';
import type { LayerSink, SinkOptions } from './sink.ts';

/** The fastest writer that this host has. */
export async function openSink(directory: string, options: SinkOptions = {}): Promise<LayerSink> {
  return (await hasGnuTar()) ? new GnuTarSink(directory, options) : new NodeSink(directory);
}
