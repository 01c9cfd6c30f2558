import { describe, expect, it } from 'vitest';
import { plainRun } from './contract/plain-run.ts';
import type { ContainerRun } from './port.ts';
import { checkRun } from './run-check.ts';

const run: ContainerRun = {
  ...plainRun,
  containerId: 'one',
  image: 'tools',
  argv: ['true'],
  graceMs: 0,
};
const file = (path: string): ContainerRun['files'][number] => ({
  path,
  content: new Uint8Array(),
  mode: 0o400,
  sensitive: false,
  readOnly: false,
});

describe('what a container is asked to have', () => {
  const bad = ['/cnab/app/../x', 'relative', '/etc//x', '/etc/./x', '/etc/x/', '/a\0b'];
  it.each(bad)('names the path %j, what is there, the container and what to do', (path) => {
    expect(() => checkRun(run)).not.toThrow();
    const wrong: readonly [Partial<ContainerRun>, string][] = [
      [{ files: [file('/ok'), file(path)] }, 'the file at'],
      [{ collectPaths: [path] }, 'the output at'],
      [{ outputsDir: path }, 'the folder of outputs at'],
    ];
    for (const [more, says] of wrong)
      expect(() => checkRun({ ...run, ...more })).toThrowError(
        expect.objectContaining({
          code: 'ENGINE_RUN_INVALID',
          message: `container one: ${says} ${JSON.stringify(path)} is at no plain absolute path`,
          hint: expect.stringContaining('correct the `path` of the parameter'),
        }),
      );
  });
});
