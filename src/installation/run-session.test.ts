import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Event } from '../kernel/index.ts';
import { runInSession, type SessionParts } from './run-session.ts';
import type { ActionDeps, ActionRequest } from './types.ts';

describe('a run in its session', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'skycap-session-'));
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  it('ends with its own fault, tries every clean-up, and tells what could not be cleaned up', async () => {
    const events: Event[] = [];
    const tried: string[] = [];
    const failing = (what: string) => async (): Promise<never> => {
      tried.push(what);
      throw new Error(`${what} failed`);
    };
    const request = {
      key: { namespace: '', name: 'one' },
      source: { directory: join(directory, 'absent') },
    } as unknown as ActionRequest;
    const deps = {
      directory,
      state: { getInstallation: failing('sweeping') },
      engine: { name: 'fake', open: async () => ({ close: failing('closing') }) },
      emit: (event: Event) => events.push(event),
    } as unknown as ActionDeps;
    const parts = {
      run: { id: 'run' },
      loaded: { bundle: { invocationImages: [] } },
      allowed: { installationId: 'id', planned: { plan: { steps: [{}], images: {} } } },
    } as unknown as SessionParts;

    await expect(runInSession(request, deps, parts)).rejects.toThrow('absent');

    expect(tried).toEqual(['closing', 'sweeping']);
    expect(events).toMatchObject(
      tried.map((what) => ({
        type: 'warning',
        code: 'not-cleaned-up',
        message: expect.stringContaining(`${what} failed`),
      })),
    );
  });
});
