import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { BundleSource } from '../../installation/index.ts';
import type { Composition } from '../compose.ts';
import { usage } from '../errors.ts';
import type { ActionInputs } from './request.ts';

/** The bundle of an action: `--file`, else this folder's, else the one that the installation was made from. */
export async function sourceOf(
  rooms: Composition,
  choice: {
    readonly inputs: ActionInputs;
    readonly given: string | undefined;
    readonly isNew: boolean;
    readonly isFileGiven: boolean;
  },
): Promise<BundleSource> {
  const { inputs, given, isNew, isFileGiven } = choice;
  const isHere = (await stat(inputs.source.file).catch(() => undefined)) !== undefined;
  if (isNew || isFileGiven || isHere || given === undefined) {
    return inputs.source;
  }
  const installation = await (await rooms.state()).getInstallation({
    namespace: await rooms.namespace(),
    name: given,
  });
  const file = installation?.bundle.file;
  return file === undefined
    ? inputs.source
    : { file, given: file, directory: dirname(file), lockFile: join(dirname(file), 'porter.lock') };
}

/** The action that has a step of this id, or of this place (`install[2]`). @throws USAGE where none or several have */
export async function actionOfStep(source: BundleSource, step: string): Promise<string> {
  const { loadInstallation } = await import('../../installation/index.ts');
  const { loadBundleSource } = await loadInstallation();
  const { bundle } = await loadBundleSource(source);
  // `install[2]` is a step without an id, `apply[eu]` a cell of a matrix.
  const bracket = step.indexOf('[');
  const base = bracket === -1 ? step : step.slice(0, bracket);
  const actions = [...bundle.actions].filter(([action, steps]) =>
    steps.some((s) => s.id === step || s.id === base || `${action}[${s.index}]` === step),
  );
  const [first, second] = actions;
  if (first === undefined) {
    const all = [...bundle.actions].flatMap(([action, steps]) =>
      steps.map((s) => s.id ?? `${action}[${s.index}]`),
    );
    throw usage(`the bundle has no step ${step}`, `it has ${all.join(', ')}`);
  }
  if (second !== undefined) {
    throw usage(
      `several actions have a step ${step}: ${actions.map(([name]) => name).join(', ')}`,
      `add --action ${first[0]}`,
    );
  }
  return first[0];
}
