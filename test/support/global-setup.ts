import { buildDistIfStale } from '../../scripts/build.ts';

interface Project {
  readonly name: string;
}

/** Projects whose tests run the built program; unit tests must not wait for, or fail with, a build. */
const needDist = new Set(['e2e', 'corpus']);

export default async function setup(project: Project): Promise<void> {
  if (needDist.has(project.name)) {
    await buildDistIfStale();
  }
}
