import { describe, expect, it } from 'vitest';
import { packFiles, readAll, readArchive } from '../archive.ts';
import { plainRun } from '../contract/plain-run.ts';
import type { ContainerRun, SessionSpec } from '../port.ts';
import { createFakeEngine, FakeWorld } from './index.ts';

const operation = { signal: new AbortController().signal, emit: () => {} };
const image = {} as SessionSpec['images'][string];
const session: SessionSpec = { runId: 'r1', installationId: 'i1', images: { tool: image }, network: false };

function run(argv: readonly string[], more: Partial<ContainerRun> = {}): ContainerRun {
  return {
    ...plainRun,
    containerId: 'c1',
    image: 'tool',
    argv,
    ...more,
  };
}

function listen() {
  const output: string[] = [];
  const cancel = new AbortController();
  const kill = new AbortController();
  return {
    output,
    cancel,
    kill,
    io: {
      onOutput: (stream: string, chunk: Uint8Array) => void output.push(`${stream}:${chunk}`),
      signal: cancel.signal,
      kill: kill.signal,
    },
  };
}

describe('the fake engine', () => {
  it('runs a function for an image and collects what it wrote', async () => {
    const engine = createFakeEngine({
      images: {
        tool: {
          run: (p) => {
            p.stdout(`hello ${p.files.text('name')}`);
            p.files.write('outputs/url', 'http://x');
            return 3;
          },
        },
      },
    });
    const opened = await engine.open(session, operation);
    await opened.workspace.put(packFiles({ name: 'you' }));
    const { io, output } = listen();
    expect(await opened.run(run(['x']), io)).toMatchObject({ exitCode: 3, cause: 'exited' });
    expect(output).toEqual(['stdout:hello you']);
    const files = await opened.collect('c1', {
      paths: ['/cnab/app/outputs'],
      maxFileBytes: 10,
      maxTotalBytes: 10,
    });
    expect(files.map((file) => [file.path, String(file.content)])).toEqual([
      ['/cnab/app/outputs/url', 'http://x'],
    ]);
    await opened.close({ keepWorkspace: false });
    expect(engine.world.runs.size).toBe(0);
  });

  it('ends with 127 for a command line that the image does not have', async () => {
    const opened = await createFakeEngine().open(session, operation);
    expect(await opened.run(run(['nope']), listen().io)).toMatchObject({ exitCode: 127, cause: 'not-found' });
  });

  it('hands a running container to another engine of the same world', async () => {
    const world = new FakeWorld({ tool: { run: async (p) => (await p.sleep(20), p.stdout('late'), 7) } });
    const first = await createFakeEngine({ world }).open(session, operation);
    void first.run(run(['x']), listen().io);
    const adopted = await createFakeEngine({ world }).adopt('r1', operation);
    const { io, output } = listen();
    expect(await adopted?.attach('c1', io)).toMatchObject({ exitCode: 7 });
    expect(output).toEqual(['stdout:late']);
    expect(world.started).toHaveLength(1);
  });

  it('gives the workspace back as an archive', async () => {
    const opened = await createFakeEngine().open(session, operation);
    await opened.workspace.put(packFiles({ 'a/b': 'B', c: 'C' }));
    const names: string[] = [];
    for await (const entry of readArchive(await opened.workspace.get(['a', 'gone']))) {
      names.push(`${entry.path}=${await readAll(entry.content)}`);
    }
    expect(names).toEqual(['a=', 'a/b=B']);
  });
});
