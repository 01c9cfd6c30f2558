/** Values of the environment that say where credentials are; handed in by whoever composes. */
export interface CredentialsEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Absolute path of the home folder. */
  readonly home: string;
}

export interface LoginEntry {
  readonly username: string;
  /** Password or access token. */
  readonly secret: string;
}
