import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { it } from 'vitest';

/** Engines that the end-to-end tests drive, and why one cannot be driven here. */
export type EngineName = 'oci-runtime' | 'docker';

export function engineTrouble(engine: EngineName): string | undefined {
  if (process.getuid?.() !== 0) return 'the tests of engines need root';
  if (!existsSync('/bin/busybox')) return 'test images are made of busybox (apt-get install busybox-static)';
  const programs = engine === 'docker' ? ['docker'] : ['crun', 'slirp4netns', 'ip'];
  for (const program of programs) {
    if (!onPath(program)) return `${program} is not installed`;
  }
  if (engine === 'docker') {
    try {
      execFileSync('docker', ['version'], { stdio: 'ignore', timeout: 120_000 });
    } catch {
      return 'no Docker daemon answers';
    }
  }
  return undefined;
}

function onPath(program: string): boolean {
  return (process.env.PATH ?? '').split(':').some((folder) => existsSync(`${folder}/${program}`));
}

/**
 * The engines to test on. One that is missing is named aloud, by a line and by a test that is not run, and is a
 * failure where `SKYCAP_REQUIRE_ENGINES=1`.
 */
export function enginesToTest(...wanted: EngineName[]): readonly EngineName[] {
  return wanted.filter((engine) => {
    const trouble = engineTrouble(engine);
    if (trouble === undefined) return true;
    if (process.env.SKYCAP_REQUIRE_ENGINES === '1')
      throw new Error(`engine ${engine} has to be tested: ${trouble}`);
    console.warn(`NOT TESTED: engine ${engine}: ${trouble}`);
    it.skip(`NOT TESTED: engine ${engine}: ${trouble}`, () => {});
    return false;
  });
}
