/** Values of the environment that say where credentials are; handed in by whoever composes. */
export interface CredentialsEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Absolute path of the home folder. */
  readonly home: string;
  /**
   * `credential-helpers` of containers-registries.conf(5): asked in this order, `containers-auth.json` standing for
   * the files. Default, and where the list is empty: the files alone.
   */
  readonly helpers?: readonly string[];
}

/** The name that stands for the files in a list of helpers. */
export const AUTH_FILES = 'containers-auth.json';

export interface LoginEntry {
  readonly username: string;
  /** Password or access token. */
  readonly secret: string;
}
