import type { ImageRunConfig } from '../oci/index.ts';

const dockerPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** The image's environment as a record, PATH filled in as Docker does. */
export function imageEnvironment(config: ImageRunConfig): Record<string, string> {
  const env: Record<string, string> = { PATH: dockerPath };
  for (const entry of config.env) {
    const equals = entry.indexOf('=');
    if (equals > 0) env[entry.slice(0, equals)] = entry.slice(equals + 1);
  }
  return env;
}
