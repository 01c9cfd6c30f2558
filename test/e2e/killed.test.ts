import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type Ran, type World } from '../support/world.ts';

/** Every named moment at which the tool can die; see `failpoint` in the code. */
const failpoints = [
  'lock',
  'intent',
  'create',
  'start',
  'running',
  'exit',
  'record',
  'collecting',
  'state save',
  'close',
];
const randomMoments = Number(process.env.SKYCAP_KILLS ?? 12);

/** A container that begins while another one is there writes TWO; each writes how it began and ended. */
const step = `
if ! mkdir /vol/alone 2>/dev/null; then echo TWO >> /vol/log; fi
echo begin >> /vol/log
sleep 0.4
echo end >> /vol/log
rmdir /vol/alone
exit 7`;

const bundle = (tools: string) => `name: killed
version: 1.0.0
invocationImages:
  - name: tools
    image: "${tools}"
    network: none
    volumes: [{name: log, path: /vol, scope: installation}]
customActions:
  read: {modifies: true}
install:
  - description: Work
    id: work
    invoke:
      name: tools
      action:
        run: |${step.replaceAll('\n', '\n          ')}
read:
  - description: Read
    invoke: {name: tools, action: {command: [cat, /vol/log]}}
`;

describe.each(enginesToTest('oci-runtime'))('S47 B87 killed with -9 on %s', (engine) => {
  let world: World;
  let cwd: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    cwd = world.bundle({ 'porter.yaml': bundle(await world.image('tools:1')) });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    // The image is unpacked before the clock starts.
    expectCode(await world.skycap(['install', 'warm-up'], { cwd }), 50);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  /** Races a second install against the dying one until it gets the lock; gives what was killed and what came after. */
  async function race(
    name: string,
    kill: (first: ReturnType<World['start']>) => Promise<void>,
    env: Record<string, string> = {},
  ): Promise<{ first: Ran; second: Ran }> {
    const first = world.start(['install', name, '--progress', 'json'], { cwd, env });
    // From here on the first holds the lock, or is dead already.
    await Promise.race([first.said('run.started').catch(() => {}), first.ended]);
    const killed = kill(first);
    let second: Ran | undefined;
    for (let tries = 0; tries < 100; tries += 1) {
      second = await world.skycap(['install', name, '--progress', 'json'], { cwd });
      if (second.code !== 61 && second.code !== 67) break;
      await sleep(50);
    }
    await killed;
    return { first: await first.ended, second: second as Ran };
  }

  async function log(name: string): Promise<string> {
    const read = expectCode(
      await world.skycap(['invoke', name, '--action', 'read', '--progress', 'json'], { cwd }),
      0,
    );
    return read.events
      .filter((event) => event.type === 'step.output')
      .map((event) => String(event.text).trim())
      .join(' ');
  }

  // Each has an installation of its own.
  it.each(failpoints)('S47 at failpoint %s', { concurrent: true }, async (failpoint) => {
    const name = `at-${failpoint.replace(' ', '-')}`;

    const { first, second } = await race(name, async () => {}, { SKYCAP_FAILPOINT: failpoint });

    expect(first.signal).toBe('SIGKILL');
    const ran = ['running', 'exit'].includes(failpoint);
    const taken = second.events.filter((event) => event.type === 'step.finished');
    // What the killed tool's step came to, then the second's own.
    if (ran) expect(taken.map((event) => event.exitCode)).toEqual([7, 7]);
    const begins = await log(name);
    expect(begins).not.toContain('TWO');
    expect(begins).toMatch(/^(begin end ?)+$/);
    const runs = expectCode(await world.skycap(['run', 'list', '-i', name, '-o', 'json']), 0).json<
      { status: string }[]
    >();
    // The one that was killed and the one after it, with the reading: nothing of it goes on.
    expect(runs.map((run) => run.status).filter((status) => /running|interrupted/.test(status))).toEqual([]);
    expect(runs.length).toBeGreaterThanOrEqual(2);
  });

  it('lists a run as interrupted until the next command tells how it ended', async () => {
    const seen = async () => {
      const runs = await world.skycap(['run', 'list', '-i', 'left', '-o', 'json']);
      const [{ id, status }] = expectCode(runs, 0).json<[{ id: string; status: string }]>();
      const texts = [
        'run list -i left',
        `run show ${id}`,
        'installation show left',
        'installation list --name left',
      ];
      const said = await Promise.all(texts.map((line) => world.skycap(line.split(' '))));
      const shown = await world.skycap(['installation', 'show', 'left', '-o', 'json']);
      const { lastRun, _calculated } = shown.json<{
        lastRun: { state: string };
        _calculated: { displayInstallationStatus: string };
      }>();
      return {
        json: [status, lastRun.state, _calculated.displayInstallationStatus],
        texts: said.map((ran, at) => [
          texts[at]?.split(' ')[0],
          /interrupted|failed|running/.exec(ran.stdout)?.[0],
        ]),
      };
    };
    const killed = await world.skycap(['install', 'left'], { cwd, env: { SKYCAP_FAILPOINT: 'running' } });
    expect(killed.signal).toBe('SIGKILL');
    const verbs = ['run', 'run', 'installation', 'installation'];

    expect(await seen()).toEqual({
      json: ['interrupted', 'interrupted', 'interrupted'],
      texts: verbs.map((verb) => [verb, 'interrupted']),
    });
    // Looking changes nothing: the run is still there to be ended.
    expectCode(await world.skycap(['invoke', 'left', '--action', 'read'], { cwd }), 0);
    expect((await seen()).json[0]).toBe('failed');
  });

  it('lists a run whose process lives as running', async () => {
    // It stops by itself while its step runs, however soon that ends.
    const env = { SKYCAP_FAILPOINT: 'running:SIGSTOP' };
    const first = world.start(['install', 'alive', '--progress', 'json'], { cwd, env });
    await first.said('step.running');
    try {
      while (!/^\d+ \(.*\) T /.test(readFileSync(`/proc/${first.process.pid}/stat`, 'latin1')))
        await sleep(20);
      const runs = await world.skycap(['run', 'list', '-i', 'alive', '-o', 'json']);
      expect(expectCode(runs, 0).json<{ status: string }[]>()[0]?.status).toBe('running');
    } finally {
      first.process.kill('SIGCONT');
    }
    expectCode(await first.ended, 50);
  });

  it.each(Array.from({ length: randomMoments }, (_, index) => index))(
    'S47 at a random moment (%i)',
    { concurrent: true },
    async (index) => {
      const name = `random-${index}`;

      await race(name, async (first) => {
        await sleep(Math.random() * 2500);
        first.process.kill('SIGKILL');
      });

      const begins = await log(name);
      expect(begins).not.toContain('TWO');
      expect(begins).toMatch(/^(begin end ?)+$/);
    },
  );
});
