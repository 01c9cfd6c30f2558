import { expect, it } from 'vitest';
import { makeActionWorld, ran } from './action.fixture.ts';
import { around } from './interruption.fixture.ts';

it('ends as cancelled, after its always steps, where a step is cancelled before its container starts', async () => {
  await using world = await makeActionWorld();
  const step = (id: string, more: string): string =>
    `  - {id: ${id}, description: ${id}${more}, invoke: {name: tools, action: {command: [${id}]}}}\n`;
  const directory = world.bundle(
    `install:\n${step('apply', '')}${step('next', '')}${step('clean', ', always: true')}`,
  );
  const cancelling = new AbortController();
  const calls: string[] = [];
  const outcome = await world.run(directory, 'install', {
    image: { run: (process) => void calls.push(process.argv[0] as string) },
    signal: cancelling.signal,
    around: around('run', (run) => {
      cancelling.abort();
      return run();
    }),
  });
  const { result, run } = ran(outcome);
  expect(result.error).toMatchObject({ exitCode: 130 });
  expect(calls).toEqual(['clean']);
  expect(run.steps.map(({ state }) => state)).toEqual(['aborted', 'pending', 'succeeded']);
});
