import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);
const LIMIT_MS = 300_000;

export interface Shell {
  /** Where everything of this run lies. */
  readonly directory: string;
  /** Never blocking: registries live in this process. @returns stdout, trimmed */
  sh(script: string, env?: Readonly<Record<string, string>>): Promise<string>;
}

export function makeShell(directory: string): Shell {
  return {
    directory,
    sh: async (script, env = {}) => {
      try {
        const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], {
          cwd: directory,
          timeout: LIMIT_MS,
          maxBuffer: 64 * 1024 * 1024,
          env: {
            ...process.env,
            HOME: directory,
            XDG_RUNTIME_DIR: directory,
            DOCKER_CONFIG: directory,
            BUILDAH_ISOLATION: 'chroot',
            ...env,
          },
        });
        return stdout.trim();
      } catch (error) {
        const { stderr, message } = error as { stderr?: string; message: string };
        throw new Error((stderr ?? '').trim().split('\n').slice(-3).join(' ') || message, { cause: error });
      }
    },
  };
}
