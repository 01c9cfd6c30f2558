import { spawn } from 'node:child_process';
import type { Emit, Event } from '../../kernel/index.ts';
import type { Context } from '../types.ts';

export interface KeptShell {
  readonly step: string;
  readonly shell: readonly string[];
}

export interface ShellWatch {
  readonly kept: readonly KeptShell[];
  readonly emit: Emit;
}

/** Remembers the containers that were kept, on the way of the events. */
export function watchShells(emit: Emit): ShellWatch {
  const kept: KeptShell[] = [];
  return {
    kept,
    emit(event) {
      const { step, shell } = event as Event & Partial<KeptShell>;
      if (event.type === 'step.kept' && step !== undefined && shell !== undefined) {
        kept.push({ step, shell });
      }
      emit(event);
    },
  };
}

/** Opens a shell in each kept container, one after the other, on this terminal. */
export async function openShells(kept: readonly KeptShell[], context: Context): Promise<void> {
  for (const { step, shell } of kept) {
    const [program = '', ...words] = shell;
    context.emit({
      type: 'notice',
      code: 'shell',
      message: `shell of step ${step}; leave it with exit`,
    } as Event);
    context.pause();
    await new Promise<void>((resolve) => {
      const child = spawn(program, words, { stdio: 'inherit' });
      child.on('error', (error) => {
        context.emit({
          type: 'warning',
          code: 'shell',
          message: `the shell of step ${step} did not start: ${error.message}`,
        } as Event);
        resolve();
      });
      child.on('close', () => resolve());
    });
  }
}
