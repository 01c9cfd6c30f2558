import type { FakeProgram } from '../fake/index.ts';
import type { Program } from './fixture.ts';

/** A shell script in the image `shell`, and what the fake does for it. */
export function sh(script: string, fake: FakeProgram, args: readonly string[] = []): Program {
  return { image: 'shell', argv: ['sh', '-c', script, ...(args.length === 0 ? [] : ['sh', ...args])], fake };
}

export function exits(code: number): Program {
  return sh(`exit ${code}`, () => code);
}

/** Writes a text file, its parents existing. */
export function writes(path: string, text: string, mode = 0o644): Program {
  return sh(`printf %s '${text}' >${path} && chmod ${mode.toString(8)} ${path}`, (p) =>
    p.files.write(path, text, mode),
  );
}

/** Prints a file; 1 if it is not there. */
export function reads(path: string): Program {
  return sh(`cat ${path}`, (p) => {
    if (!p.files.exists(path)) return 1;
    p.stdout(p.files.read(path));
    return 0;
  });
}

/** Says `ready` and waits to be ended. */
export const waits: Program = sh('echo ready; sleep 300 & wait $!', async (p) => {
  p.stdout('ready\n');
  await p.sleep(300_000);
});

/** Says `ready` and does not mind TERM. */
export const stubborn: Program = sh('trap "" TERM; echo ready; sleep 300 & wait $!; wait $!', async (p) => {
  p.onTerm(() => {});
  p.stdout('ready\n');
  await p.sleep(300_000);
});
