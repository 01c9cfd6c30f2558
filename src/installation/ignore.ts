import dockerignore from '@balena/dockerignore';

export interface IgnoreRules {
  add(rules: string | readonly string[]): IgnoreRules;
  createFilter(): (path: string) => boolean;
}

/** Rules of `.dockerignore` files. The package exports a function, and its types say something else. */
export function ignoreRules(): IgnoreRules {
  return (dockerignore as unknown as () => IgnoreRules)();
}
