import type { Engine } from '../port.ts';
import type { DockerEngineOptions } from './engine.ts';

export { type DockerEndpoint, type DockerEndpointInput, dockerEndpoint } from './endpoint.ts';
export type { DockerEngineOptions } from './engine.ts';
export { dockerError } from './errors.ts';
export type { DockerProbe } from './probe.ts';

/** @see engine.ts */
export async function createDockerEngine(options: DockerEngineOptions): Promise<Engine & AsyncDisposable> {
  return (await import('./engine.ts')).createDockerEngine(options);
}

/** @see probe.ts */
export async function probeDocker(socketPath: string): Promise<import('./probe.ts').DockerProbe> {
  return await (await import('./probe.ts')).probeDocker(socketPath);
}
