/** image-spec, media-types.md, and Docker's image manifest version 2, schema 2. */
export const OCI_INDEX = 'application/vnd.oci.image.index.v1+json';
export const OCI_MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
export const OCI_CONFIG = 'application/vnd.oci.image.config.v1+json';
export const DOCKER_LIST = 'application/vnd.docker.distribution.manifest.list.v2+json';
export const DOCKER_MANIFEST = 'application/vnd.docker.distribution.manifest.v2+json';

export function isIndexType(mediaType: string): boolean {
  return mediaType === OCI_INDEX || mediaType === DOCKER_LIST;
}

export function isManifestType(mediaType: string): boolean {
  return mediaType === OCI_MANIFEST || mediaType === DOCKER_MANIFEST;
}

/** Whether a descriptor or a document is an index, or Docker's manifest list, by its media type. */
export function isIndex({ mediaType }: { readonly mediaType: string }): boolean {
  return isIndexType(mediaType);
}

/** So many indexes one in the other are followed: tools make one or two, a hostile image as many as one lets it. */
export const MAX_INDEX_DEPTH = 8;
