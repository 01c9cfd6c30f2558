/**
 * Most bytes of a manifest, an index or a config: these are read whole. Registries need not take manifests of more
 * than 4 MiB (distribution-spec, "Pushing Manifests").
 */
export const LARGEST_DOCUMENT = 8 * 1024 * 1024;
