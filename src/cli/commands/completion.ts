import { notSupported } from '../errors.ts';
import type { Command } from '../types.ts';

export const command: Command = {
  path: 'completion',
  summary: 'print a completion script for a shell',
  raw: true,
  arguments: [{ name: 'SHELL', required: true, summary: 'bash, zsh or fish' }],
  flags: [],
  examples: [
    { line: 'source <(skycap completion bash)', does: 'for this shell' },
    { line: 'skycap completion zsh > "${fpath[1]}/_skycap"', does: 'for all zsh shells' },
    { line: 'skycap completion fish > ~/.config/fish/completions/skycap.fish', does: 'for all fish shells' },
  ],
  async run({ arguments: [shell] }, context) {
    if (shell === 'powershell') {
      throw notSupported('completion for powershell', 'skycap runs on Linux', 'use bash, zsh or fish');
    }
    const { completionScript } = await import('../completion.ts');
    const { entries } = await import('./index.ts');
    context.bytes(await completionScript(shell as string, entries));
    return 0;
  },
};
