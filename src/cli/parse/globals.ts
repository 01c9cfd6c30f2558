import type { Flag } from '../types.ts';

export const outputFlag: Flag = {
  name: 'output',
  short: 'o',
  type: 'string',
  value: 'FORMAT',
  choices: ['text', 'json', 'yaml', 'plaintext'],
  default: 'text',
  summary: 'format of the result on stdout; plaintext is text',
};

/** Flags of every command. */
export const globalFlags: readonly Flag[] = [
  outputFlag,
  {
    name: 'progress',
    type: 'string',
    value: 'KIND',
    choices: ['auto', 'live', 'plain', 'json'],
    default: 'auto',
    summary: 'how events appear on stderr; auto is live on a terminal and plain elsewhere',
  },
  {
    name: 'verbosity',
    type: 'string',
    value: 'LEVEL',
    choices: ['debug', 'info', 'warning', 'error'],
    default: 'info',
    summary: 'the least level of event that is shown',
  },
  { name: 'debug', type: 'switch', summary: 'show debug events, and the stack of unexpected errors' },
  { name: 'help', short: 'h', type: 'switch', summary: 'show help for the command' },
];
