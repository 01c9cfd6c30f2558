import {
  denied,
  late,
  names,
  type Scope,
  type ScopeNode,
  secret,
  value,
} from '../../document/expression/index.ts';
import type { Json } from '../../document/index.ts';
import type { LintContext, PlacedStep } from './context.ts';
import { outputNames } from './names.ts';

type Members = Map<string, ScopeNode>;

/**
 * What the expressions of one step may read, without any value: the roots of docs/bundle.md, "Expressions".
 * `shared` holds what is equal for all steps of a file and is made once.
 */
export function scopeOf(placed: PlacedStep, shared: SharedScope): Scope {
  const { matrix } = placed.step;
  const matrixNode: ScopeNode =
    matrix === undefined
      ? denied('the step has no `matrix`', 'add `matrix:` to the step')
      : names(new Map([...matrix.keys()].map((key) => [key, late(`matrix ${key}`)])));
  return names(
    new Map<string, ScopeNode>([
      [
        'bundle',
        names(
          new Map([
            ...shared.bundle,
            ['parameters', names(shared.parameters(placed.action))],
            ['credentials', names(shared.credentials(placed.action))],
          ]),
        ),
      ],
      ['installation', shared.installation],
      // The image's own environment is not known here.
      ['env', names({}, { open: true })],
      ['matrix', matrixNode],
      ['outputs', denied('`outputs` stands in dependency mappings only', 'write `bundle.outputs.NAME`')],
    ]),
  );
}

export interface SharedScope {
  readonly bundle: Members;
  readonly installation: ScopeNode;
  readonly parameters: (action: string) => Members;
  readonly credentials: (action: string) => Members;
}

export function sharedScope(context: LintContext): SharedScope {
  const { bundle } = context;
  const text = (...keys: string[]): ScopeNode => names(new Map(keys.map((key) => [key, late(key)])));
  const outputs = new Map(outputNames(context).map((name) => [name, late(`output ${name}`)] as const));
  const dependencies = bundle.dependencies.map(({ name }) => {
    const members: [string, ScopeNode][] = ['name', 'version', 'description'].map((key) => [key, late(key)]);
    return [name, names(new Map([...members, ['outputs', names({}, { open: true })]]))] as const;
  });
  const images = bundle.images.map(({ key, labels }) => {
    const members = ['repository', 'digest', 'tag', 'imageType', 'mediaType', 'description', 'size'].map(
      (field): [string, ScopeNode] => [field, late(field)],
    );
    const labelNodes = Object.entries(labels).map(([label, written]): [string, ScopeNode] => [
      label,
      value(written),
    ]);
    return [key, names(new Map([...members, ['labels', names(new Map(labelNodes))]]))] as const;
  });
  const shared: Members = new Map<string, ScopeNode>([
    ...['name', 'version', 'description', 'installerImage'].map((key): [string, ScopeNode] => [
      key,
      late(key),
    ]),
    ['custom', customNode(bundle.custom)],
    // A mixin may make outputs that the file does not declare; they are warned of elsewhere.
    ['outputs', names(outputs, { open: hasMixinSteps(context) })],
    ['dependencies', names(new Map(dependencies))],
    ['images', names(new Map(images))],
  ]);
  const byAction = <T extends { readonly name: string; readonly applyTo: readonly string[] }>(
    list: readonly T[],
    node: (one: T) => ScopeNode,
  ) => {
    const kept = new Map<string, Members>();
    return (action: string): Members => {
      const known =
        kept.get(action) ??
        new Map(
          list.map((one) => [
            one.name,
            applies(one, action)
              ? node(one)
              : denied(`it does not apply to ${action}`, `add \`${action}\` to its \`applyTo\``),
          ]),
        );
      kept.set(action, known);
      return known;
    };
  };
  return {
    bundle: shared,
    installation: text('name', 'namespace', 'id'),
    parameters: byAction(bundle.parameters, (one) => (one.sensitive ? secret(one.name) : late(one.name))),
    credentials: byAction(bundle.credentials, (one) => secret(one.name)),
  };
}

export function applies(one: { readonly applyTo: readonly string[] }, action: string): boolean {
  return one.applyTo.length === 0 || one.applyTo.includes(action);
}

/** `custom` is known, so its members are; a map may also be read whole. */
function customNode(custom: { readonly [key: string]: Json }): ScopeNode {
  return names(new Map(Object.entries(custom).map(([key, json]) => [key, value(json)] as const)));
}

export function hasMixinSteps(context: LintContext): boolean {
  return context.steps.some(({ step }) => step.body.kind === 'mixin');
}
