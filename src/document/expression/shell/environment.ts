/** Names that mean something to shells or programs. */
const TAKEN =
  /^(?:PATH|HOME|IFS|PWD|OLDPWD|USER|LOGNAME|SHELL|LANG|TZ|TERM|ENV|UID|EUID|PPID|OPTARG|OPTIND|RANDOM|SECONDS|LINENO|HOSTNAME|TMPDIR|EDITOR|PAGER|MAIL|REPLY|PS\d|_|(?:LC|LD|BASH|PYTHON|PERL|NODE|RUBY|PHP|GIT|SSH|CNAB|PORTER|DOCKER|KUBE)_?\w*)$/;

/** Finds free names for the values that move to a step's `env:`; equal templates share one. */
export class EnvironmentNames {
  readonly added: Record<string, string> = {};
  readonly #script: string;
  readonly #known: Map<string, string>;
  readonly #byTemplate = new Map<string, string>();

  constructor(script: string, env: Readonly<Record<string, string>>) {
    this.#script = script;
    this.#known = new Map(Object.entries(env));
    for (const [name, template] of this.#known)
      if (/^[A-Za-z_]\w*$/.test(name)) this.#byTemplate.set(normal(template), name);
  }

  /** The variable that holds the template's value; `wish` is made into a name. */
  nameFor(wish: string, template: string): string {
    const found = this.#byTemplate.get(normal(template));
    if (found !== undefined) return found;
    const bare = wish.toUpperCase().replace(/[^A-Z0-9_]/g, '_');
    const base = /^[A-Z_]/.test(bare) && !TAKEN.test(bare) ? bare : `VALUE_${bare}`;
    let name = base;
    for (let i = 2; this.#isUsed(name); i++)
      name = i === 2 && !base.startsWith('VALUE_') ? `VALUE_${base}` : `${base}_${i}`;
    this.added[name] = template;
    this.#known.set(name, template);
    this.#byTemplate.set(normal(template), name);
    return name;
  }

  #isUsed(name: string): boolean {
    return this.#known.has(name) || new RegExp(`(?<!\\w)${name}(?!\\w)`).test(this.#script);
  }
}

function normal(template: string): string {
  return template.replace(/\s+/g, '');
}
