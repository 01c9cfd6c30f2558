import type { Json, Span } from '../document/index.ts';

/**
 * What a porter.yaml says, after parsing and before anything is resolved. Strings that may hold expressions are
 * kept as written (`Text`); `plan` evaluates them. Field meanings: docs/bundle.md.
 */
export interface Bundle {
  readonly file: string;
  /** The source, for excerpts, fixes and the mounted copy. */
  readonly source: string;
  readonly schemaVersion: string;
  /** `${ }` since 1.0.0, `{{ }}` in 1.0.0-alpha.1. */
  readonly delimiters: 'dollar' | 'mustache';
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly registry?: string;
  readonly reference?: string;
  readonly maintainers: readonly { readonly name?: string; readonly email?: string; readonly url?: string }[];
  readonly custom: { readonly [key: string]: Json };
  readonly required: readonly { readonly name: string; readonly config: Json }[];
  readonly mixins: readonly { readonly name: string; readonly version?: string; readonly config: Json }[];
  readonly parameters: readonly Parameter[];
  readonly credentials: readonly Credential[];
  readonly outputs: readonly Output[];
  /** Undefined: the key is absent (state by default). Empty: off. */
  readonly state?: readonly StatePath[];
  readonly images: readonly ReferencedImage[];
  readonly invocationImages: readonly InvocationImage[];
  readonly dependencies: readonly Dependency[];
  /** Declared under `customActions`, and each action with steps; built-in ones not among them. */
  readonly customActions: readonly CustomAction[];
  /** Steps by action: install, upgrade, uninstall and custom ones, in file order. */
  readonly actions: ReadonlyMap<string, readonly Step[]>;
}

/** Text that may hold expressions, with its place in the source. */
export interface Text {
  readonly text: string;
  readonly span: Span;
}

/** A JSON value whose strings may hold expressions. */
export interface TextTree {
  readonly value: Json;
  readonly span: Span;
}

export interface Parameter {
  readonly name: string;
  readonly description: string;
  /** JSON Schema (draft-07) without Porter's own keys; `type: file` has become string + contentEncoding base64. */
  readonly schema: { readonly [key: string]: Json };
  readonly isFile: boolean;
  readonly sensitive: boolean;
  /** Absent: required, unless `source`. */
  readonly default?: Json;
  readonly env?: string;
  readonly path?: string;
  /** Empty: all actions. */
  readonly applyTo: readonly string[];
  readonly source?: { readonly output: string; readonly dependency?: string };
  readonly span: Span;
}

export interface Credential {
  readonly name: string;
  readonly description: string;
  readonly required: boolean;
  readonly env?: string;
  readonly path?: string;
  readonly applyTo: readonly string[];
  readonly span: Span;
}

export interface Output {
  readonly name: string;
  readonly description: string;
  readonly schema: { readonly [key: string]: Json };
  readonly isFile: boolean;
  readonly sensitive: boolean;
  readonly default?: Json;
  readonly path?: string;
  readonly applyTo: readonly string[];
  readonly span: Span;
}

export interface StatePath {
  readonly name: string;
  readonly path: string;
}

export interface ReferencedImage {
  readonly key: string;
  readonly repository: string;
  readonly digest?: string;
  readonly tag?: string;
  readonly imageType?: string;
  readonly mediaType?: string;
  readonly description?: string;
  readonly size?: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly span: Span;
}

export interface Dependency {
  readonly name: string;
  readonly reference: string;
  readonly version?: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly credentials: Readonly<Record<string, string>>;
  readonly outputs: Readonly<Record<string, string>>;
  readonly span: Span;
}

export interface CustomAction {
  readonly name: string;
  readonly description: string;
  /** Porter's default for an undeclared action is true. */
  readonly modifies: boolean;
  readonly stateless: boolean;
}

export type ImageSource =
  | { readonly kind: 'registry'; readonly image: string }
  | {
      readonly kind: 'build';
      readonly context: string;
      readonly dockerfile?: string;
      readonly target?: string;
      readonly args: Readonly<Record<string, string>>;
      readonly secrets: readonly string[];
    }
  | { readonly kind: 'bake'; readonly file: string; readonly name: string };

export interface InvocationImage {
  readonly name: string;
  readonly source: ImageSource;
  readonly platform?: string;
  /** What steps of this image see when they name nothing; undefined: nothing named here either. */
  readonly credentials?: readonly string[];
  readonly parameters?: readonly string[];
  readonly home: 'own' | 'shared';
  readonly workspace: 'rw' | 'ro' | 'none';
  readonly network: 'none' | 'default' | 'host';
  readonly docker: boolean;
  readonly user?: string;
  readonly resources: { readonly cpus?: number; readonly memoryBytes?: number; readonly pids?: number };
  readonly volumes: readonly {
    readonly name: string;
    readonly path: string;
    readonly scope: 'run' | 'installation';
  }[];
  readonly span: Span;
}

export type StepCommand =
  /** The image's entrypoint and cmd as they are. */
  | { readonly kind: 'image' }
  /** Exec form; replaces the entrypoint. An element that is one array-typed expression becomes several. */
  | { readonly kind: 'command'; readonly argv: readonly Text[] }
  /** Appended to the image's entrypoint in place of its cmd. */
  | { readonly kind: 'args'; readonly args: readonly Text[] }
  | { readonly kind: 'run'; readonly script: Text; readonly shell?: string }
  | { readonly kind: 'with'; readonly values: TextTree };

export interface StepOutput {
  readonly name: string;
  readonly source:
    | { readonly kind: 'path'; readonly path: string }
    | { readonly kind: 'jsonPath'; readonly query: string }
    | { readonly kind: 'regex'; readonly pattern: string }
    | { readonly kind: 'stdout' };
  /** Undefined: as the bundle's output of that name, else true. */
  readonly sensitive?: boolean;
  readonly span: Span;
}

export interface IgnoreError {
  readonly all: boolean;
  readonly exitCodes: readonly number[];
  readonly contains: readonly string[];
  readonly regex: readonly string[];
}

export interface Retry {
  readonly attempts: number;
  readonly delayMs: number;
  readonly factor: number;
  /** Undefined: any code but 0. */
  readonly onExit?: readonly number[];
}

/** Text of one expression; `value` where the file says true or false. */
export interface Condition extends Text {
  readonly value?: boolean;
}

export interface Step {
  readonly index: number;
  /** As written; `install[2]` where there is none is made by plan. */
  readonly id?: string;
  readonly description: Text;
  readonly body:
    | {
        readonly kind: 'invoke';
        /** Name in `invocationImages`. */
        readonly image: string;
        readonly command: StepCommand;
        readonly dir?: Text;
        readonly env: ReadonlyMap<string, Text>;
        readonly outputs: readonly StepOutput[];
        readonly suppressOutput: boolean;
        readonly ignoreError?: IgnoreError;
      }
    | { readonly kind: 'mixin'; readonly mixin: string; readonly value: Json };
  readonly when?: Condition;
  /** Undefined: all steps before it in the list. */
  readonly needs?: readonly string[];
  readonly timeoutMs?: number;
  readonly retry?: Retry;
  readonly idempotent: boolean;
  readonly always: boolean;
  /** Values may be lists or one expression that gives a list (known at plan time). */
  readonly matrix?: ReadonlyMap<string, TextTree>;
  readonly maxParallel?: number;
  readonly failFast: boolean;
  /** Undefined: what the image names. */
  readonly credentials?: 'all' | readonly string[];
  readonly parameters?: 'all' | readonly string[];
  readonly inputs: readonly string[];
  readonly span: Span;
}
