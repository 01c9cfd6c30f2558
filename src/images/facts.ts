import type { FactsOf, InterfaceFacts } from '../bundle/index.ts';
import { own } from '../kernel/index.ts';
import type { Lock } from './lock.ts';

/**
 * What a lock says of a bundle's images, for lint: of the platform that the image names, else of this one, else of
 * the first. A hint, as everything in a lock: `pinImages` compares it with verified bytes.
 *
 * @param host `os/architecture[/variant]`
 */
export function lockFacts(lock: Lock, host: string): FactsOf {
  return ({ name, platform }) => {
    const entry = own(lock.invocationImages, name);
    if (entry === undefined || !('platforms' in entry)) return undefined;
    const { platforms } = entry;
    const locked = (platform === undefined ? undefined : platforms[platform]) ?? platforms[host];
    const found = locked ?? Object.values(platforms)[0];
    if (found === undefined) return undefined;
    return found.interface === undefined
      ? { entrypoint: found.entrypoint }
      : { entrypoint: found.entrypoint, interface: found.interface as InterfaceFacts };
  };
}
