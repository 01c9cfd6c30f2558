import { isSkycapError, type SkycapError } from '../../kernel/index.ts';
import { DockerApi } from './api.ts';

export type DockerProbe =
  | {
      readonly fits: true;
      readonly version: string;
      readonly apiVersion: string;
      readonly architecture: string;
    }
  /** `hint` says what to install or do. */
  | { readonly fits: false; readonly reason: string; readonly hint: string; readonly error?: SkycapError };

/** Whether a daemon answers there that this engine can use; never throws. */
export async function probeDocker(socketPath: string): Promise<DockerProbe> {
  await using api = new DockerApi(socketPath);
  try {
    const { Version, ApiVersion, Arch, Os } = await api.version();
    if (Os !== 'linux')
      return {
        fits: false,
        reason: `the daemon runs ${Os} containers`,
        hint: 'switch it to Linux containers',
      };
    const [major = 0, minor = 0] = ApiVersion.split('.').map(Number);
    if (major < 1 || (major === 1 && minor < 40)) {
      return {
        fits: false,
        reason: `Docker ${Version} is too old (API ${ApiVersion})`,
        hint: 'update it to 20.10 or newer',
      };
    }
    return { fits: true, version: Version, apiVersion: ApiVersion, architecture: Arch };
  } catch (error) {
    if (!isSkycapError(error)) throw error;
    return {
      fits: false,
      reason: error.message,
      hint: error.hint ?? 'install it: apt install docker.io',
      error,
    };
  }
}
