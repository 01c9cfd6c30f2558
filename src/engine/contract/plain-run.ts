import type { ContainerRun } from '../port.ts';

/** For tests: a container that asks for nothing but a workspace; who it is and what it runs is the test's. */
export const plainRun: Omit<ContainerRun, 'containerId' | 'image' | 'argv'> = {
  env: {},
  user: '',
  workingDir: '/cnab/app',
  workspace: 'rw',
  home: 'own',
  network: 'none',
  dockerSocket: false,
  privileged: false,
  resources: {},
  volumes: [],
  files: [],
  outputsDir: '/cnab/app/outputs',
  collectPaths: [],
  graceMs: 1000,
  sensitive: false,
};
