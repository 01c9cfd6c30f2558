import fc from 'fast-check';

/**
 * Properties are tried with the same values in every run, so that a commit is green or red for everybody;
 * `SKYCAP_SEED=N` takes others.
 */
fc.configureGlobal({ seed: Number(process.env.SKYCAP_SEED ?? 1) });

export { fc };
