import { fileFlag, installationArgument, namespaceFlag } from '../commands/common.ts';
import type { Argument, Flag } from '../types.ts';

/** Flags that every command has which runs steps. */
export const actionFlags: readonly Flag[] = [
  fileFlag,
  namespaceFlag,
  {
    name: 'param',
    type: 'list',
    value: 'NAME=VALUE',
    summary:
      'a parameter; NAME=@FILE takes the bytes of a file, NAME=@- standard input, NAME=@@x is the text @x',
  },
  {
    name: 'params-file',
    type: 'list',
    value: 'FILE',
    summary: 'parameters from a YAML or JSON file; a later file wins, and --param wins over files',
  },
  {
    name: 'credential',
    type: 'list',
    value: 'NAME=SOURCE',
    summary: 'where a credential comes from: NAME=env:VAR, NAME=path:FILE or NAME=command:CMD',
  },
  {
    name: 'engine',
    short: 'd',
    aliases: ['driver'],
    type: 'string',
    value: 'NAME',
    summary:
      'what runs the containers: crun (or its other name, oci-runtime) or docker; without it whatever fits first',
  },
  {
    name: 'allow-docker-host-access',
    type: 'optional',
    own: true,
    value: 'IMAGE,…',
    summary:
      "let steps that want it, or steps of these images, have the host's Docker socket: as good as root",
  },
  {
    name: 'allow-host-network',
    type: 'optional',
    own: true,
    value: 'IMAGE,…',
    summary: "let steps that want it, or steps of these images, share the host's network",
  },
  {
    name: 'allow-privileged',
    type: 'optional',
    own: true,
    value: 'IMAGE,…',
    summary: 'let steps that want it, or steps of these images, run privileged: as good as root',
  },
  { name: 'dry-run', type: 'switch', summary: 'print the plan and run nothing' },
  { name: 'locked', type: 'switch', summary: 'never ask to write porter.lock: what it lacks is an error' },
  {
    name: 'keep',
    type: 'switch',
    summary: 'keep the container of a failed step and say how to open a shell in it',
  },
  {
    name: 'shell',
    type: 'switch',
    summary: 'open a shell in the container of a failed step at once; needs a terminal',
  },
  {
    name: 'show-live',
    type: 'switch',
    own: true,
    summary: 'show output at once that may hold values which become sensitive only later',
  },
  {
    name: 'grace',
    type: 'duration',
    value: 'DURATION',
    default: '10s',
    summary: 'time from TERM to KILL of a cancelled step',
  },
  {
    name: 'always-grace',
    type: 'duration',
    value: 'DURATION',
    default: '5m',
    summary: 'time that steps with always have after a cancellation',
  },
];

/** Going on after a failure. */
export const resumeFlags: readonly Flag[] = [
  {
    name: 'resume',
    type: 'switch',
    summary: 'go on with the last run of this action: finished steps are kept',
  },
  {
    name: 'replan',
    type: 'switch',
    summary: 'with --resume: go on although bundle, lock or parameters changed',
  },
  {
    name: 'rerun',
    type: 'list',
    value: 'STEP',
    summary: 'with --resume: run this step again although nobody knows how it ended',
  },
];

export const labelFlag: Flag = {
  name: 'label',
  short: 'l',
  type: 'list',
  value: 'KEY=VALUE',
  summary: 'a label of the installation',
};

export const installationArguments: readonly Argument[] = [installationArgument];
