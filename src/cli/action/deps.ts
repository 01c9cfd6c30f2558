import { arch, platform } from 'node:os';
import type { ActionDeps } from '../../installation/index.ts';
import type { Emit } from '../../kernel/index.ts';
import { hostPlatform } from '../../oci/names/index.ts';
import { type ConsentFlags, consentFor } from '../../settings/index.ts';
import type { Composition } from '../compose.ts';
import type { Context } from '../types.ts';

export interface ActionChoices {
  readonly emit: Emit;
  readonly consents: ConsentFlags;
  /** The bundle's folder, by which standing consents name a local bundle. */
  readonly directory: string;
  readonly canAsk: boolean;
}

/** What the installation room works with; without choices for what runs no steps. */
export async function actionDeps(
  rooms: Composition,
  context: Context,
  choices?: ActionChoices,
): Promise<ActionDeps> {
  const { settings } = await rooms.settings();
  const isOnTerminal = context.host.stdin.isTerminal && context.host.stderr.isTerminal;
  return {
    state: await rooms.state(),
    engine: await rooms.engine(),
    images: await rooms.images(),
    platform: hostPlatform({ platform: platform(), arch: arch() }),
    configuredCredentials: settings.credentials,
    environment: context.host.env,
    isGranted: ({ kind, image, step, asked }) =>
      choices !== undefined &&
      consentFor(settings, choices.consents, {
        kind,
        bundle: { directory: choices.directory },
        image: { name: image },
        step,
        asked,
      }).granted,
    ...(isOnTerminal && choices?.canAsk === true
      ? { offerLock: async (changes) => await askForLock(changes, context) }
      : {}),
    emit: choices?.emit ?? context.emit,
    signal: context.signal,
    kill: context.kill,
    now: () => new Date(context.host.now()),
    directory: settings.state.directory,
  };
}

async function askForLock(
  changes: Parameters<NonNullable<ActionDeps['offerLock']>>[0],
  context: Context,
): Promise<boolean> {
  const { changesText } = await import('../render/lock.ts');
  const answer = await context.ask(`${changesText(changes)}write these pins to porter.lock? [Y/n]`);
  return answer !== undefined && !/^n/i.test(answer.trim());
}
