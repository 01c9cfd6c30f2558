import type { PinnedImage } from '../../oci/index.ts';
import { type ContractImage, engineContract } from '../contract/suite.contract.ts';
import type { ContainerRun, SessionSpec } from '../port.ts';
import { createFakeEngine, type FakeProgram, FakeWorld } from './index.ts';

const passwd = {
  '/etc/passwd': 'x',
  '/cnab/app/shipped/hello': 'from the image\n',
  '/home/user/.profile': '',
};

engineContract(
  'fake',
  async () => {
    const programs: Record<string, FakeProgram> = {};
    const users = {
      root: { uid: 0, gid: 0 },
      user: { uid: 1000, gid: 1000 },
      '1000': { uid: 1000, gid: 1000 },
    };
    const world = new FakeWorld({
      shell: { programs, files: passwd, users, groups: { root: 0, user: 1000, staff: 50 } },
      scratch: { programs },
    });
    const none = { signal: new AbortController().signal, emit: () => {} };
    return {
      engine: createFakeEngine({ world }),
      images: { shell: {}, scratch: {} } as unknown as Record<ContractImage, PinnedImage>,
      learn: (program) => {
        programs[program.argv.join('\n')] = program.fake;
      },
      leftovers: async () => [
        ...world.runs.keys(),
        ...world.keptWorkspaces.keys(),
        ...world.installationVolumes.keys(),
      ],
      async orphan(spec: SessionSpec, run: ContainerRun) {
        const session = await createFakeEngine({ world }).open(spec, none);
        const { promise, resolve } = Promise.withResolvers<void>();
        const io = { onOutput: () => {}, onStarted: resolve, signal: none.signal, kill: none.signal };
        // Nobody listens to it any more: that is all that is left of a killed process.
        void session.run(run, io);
        await promise;
      },
      [Symbol.asyncDispose]: async () => {},
    };
  },
  {
    allowedDifferences: {
      'limit-pids': 'the fake keeps no limits',
      'limit-memory': 'the fake keeps no limits',
    },
  },
);
