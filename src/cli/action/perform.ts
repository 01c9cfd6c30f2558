import type { ActionRequest, ActionResult } from '../../installation/index.ts';
import { defaultRunOptions, type RunOptions } from '../../run/index.ts';
import type { SettingsFlags } from '../../settings/index.ts';
import { installationName } from '../commands/common.ts';
import { type Composition, compose } from '../compose.ts';
import { usage } from '../errors.ts';
import { planText } from '../render/plan.ts';
import { ranJson, ranText } from '../render/ran.ts';
import type { Context, Flags, Invocation } from '../types.ts';
import { actionDeps } from './deps.ts';
import { type ActionInputs, readActionInputs, readLabels } from './request.ts';
import { openShells, watchShells } from './shell.ts';
import { sourceOf } from './source.ts';

/** All that the flags of an action say. */
export interface ActionWish {
  readonly inputs: ActionInputs;
  readonly settings: SettingsFlags;
  readonly details: Omit<RequestDetails, 'name' | 'namespace'>;
  readonly after: { readonly delete: boolean; readonly forceDelete: boolean };
}

export async function readAction({ flags, command }: Invocation, context: Context): Promise<ActionWish> {
  const declared = new Set(command.flags.map((flag) => flag.name));
  const asks = (name: string): boolean => declared.has(name) && flags.switch(name);
  const inputs = await readActionInputs(flags, context);
  const resume = asks('resume');
  const replan = asks('replan');
  const rerun = declared.has('rerun') ? flags.list('rerun') : [];
  if (!resume && (replan || rerun.length > 0)) {
    throw usage(`--${replan ? 'replan' : 'rerun'} goes with --resume`, 'add --resume');
  }
  const force = ['force', 'force-upgrade'].map(asks).includes(true);
  const labels = declared.has('label') ? readLabels(flags) : {};
  return {
    inputs,
    settings: settingsFlags(flags, inputs),
    details: { labels, force, resume, replan, rerun },
    after: { delete: asks('delete'), forceDelete: asks('force-delete') },
  };
}

/** install, upgrade, uninstall and custom actions: from the command line to the exit code. */
export async function performAction(
  action: string,
  invocation: Invocation,
  context: Context,
): Promise<number> {
  const {
    flags,
    arguments: [given],
  } = invocation;
  const { inputs, settings, details, after } = await readAction(invocation, context);
  await using rooms = compose(context, settings);
  const isNew = action === 'install';
  const source = await sourceOf(rooms, { inputs, given, isNew, isFileGiven: flags.given('file') });
  const name = await installationName(given, context, source.file);
  const key = { name, namespace: await rooms.namespace() };
  const request = actionRequest(action, { ...inputs, source }, { ...key, ...details });
  return await carryOut(request, inputs, { rooms, context, after });
}

/** `step run`: one step of the action that has it. */
export async function performStep(
  { flags, arguments: [step] }: Invocation,
  context: Context,
): Promise<number> {
  const inputs = await readActionInputs(flags, context);
  const given = flags.string('installation');
  const wanted = flags.string('action');
  await using rooms = compose(context, settingsFlags(flags, inputs));
  const source = await sourceOf(rooms, {
    inputs,
    given,
    isNew: false,
    isFileGiven: flags.given('file'),
  });
  const name = await installationName(given, context, source.file);
  const { actionOfStep } = await import('./source.ts');
  const action = wanted ?? (await actionOfStep(source, step as string));
  const request = actionRequest(
    action,
    { ...inputs, source },
    {
      name,
      namespace: await rooms.namespace(),
      labels: {},
      force: false,
      resume: false,
      replan: false,
      rerun: [],
    },
  );
  return await carryOut({ ...request, only: step as string }, inputs, {
    rooms,
    context,
    after: { delete: false, forceDelete: false },
  });
}

function settingsFlags(flags: Flags, inputs: ActionInputs): SettingsFlags {
  const namespace = flags.string('namespace');
  return {
    ...(namespace === undefined ? {} : { namespace }),
    ...(inputs.engine === undefined ? {} : { engine: inputs.engine }),
  };
}

export interface RequestDetails {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly force: boolean;
  readonly resume: boolean;
  readonly replan: boolean;
  readonly rerun: readonly string[];
}

/** Pure: what the installation room is asked for. */
function actionRequest(action: string, inputs: ActionInputs, details: RequestDetails): ActionRequest {
  return {
    action,
    source: inputs.source,
    key: { namespace: details.namespace, name: details.name },
    labels: details.labels,
    parameters: inputs.parameters,
    credentials: inputs.credentials,
    force: details.force,
    dryRun: inputs.dryRun,
    resume: details.resume,
    replan: details.replan,
    rerun: details.rerun,
    options: runOptions(inputs),
  };
}

function runOptions({ graceMs, alwaysGraceMs, keep, showLive }: ActionInputs): RunOptions {
  return {
    ...defaultRunOptions,
    keep,
    showLive,
    ...(graceMs === undefined ? {} : { graceMs }),
    ...(alwaysGraceMs === undefined ? {} : { alwaysGraceMs }),
  };
}

interface Surroundings {
  readonly rooms: Composition;
  readonly context: Context;
  readonly after: { readonly delete: boolean; readonly forceDelete: boolean };
}

async function carryOut(
  request: ActionRequest,
  inputs: ActionInputs,
  { rooms, context, after }: Surroundings,
): Promise<number> {
  const { loadInstallation } = await import('../../installation/index.ts');
  const { runAction, deleteInstallation } = await loadInstallation();
  const watch = watchShells(context.emit);
  const deps = await actionDeps(rooms, context, {
    emit: watch.emit,
    consents: inputs.consents,
    directory: request.source.directory,
    canAsk: !inputs.locked,
  });
  const outcome = await runAction(request, deps);
  if (outcome.kind === 'planned') {
    const { plan, gaps } = outcome;
    await context.result({ data: { ...plan, gaps }, text: (style) => planText(plan, gaps, style) });
    if (outcome.refused !== undefined) throw outcome.refused;
    return 0;
  }
  if (inputs.shell) {
    await openShells(watch.kept, context);
  }
  const succeeded = outcome.result.state === 'succeeded';
  const isDeleted = after.forceDelete || (after.delete && succeeded);
  if (isDeleted) {
    await deleteInstallation(request.key, deps, { force: after.forceDelete });
  }
  return await report(outcome, { context, isDeleted });
}

async function report(
  outcome: Extract<ActionResult, { kind: 'ran' }>,
  { context, isDeleted }: { context: Context; isDeleted: boolean },
): Promise<number> {
  const { error } = outcome.result;
  await context.result({ data: ranJson(outcome, isDeleted), text: () => ranText(outcome, isDeleted) });
  if (error === undefined) {
    return outcome.result.state === 'succeeded' ? 0 : 50;
  }
  throw error;
}
