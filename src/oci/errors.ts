import { errorTable, isSkycapError, SkycapError } from '../kernel/index.ts';

/** The codes of this room: names and registry first, then store, layers and images. */
export const ociError = errorTable({
  REFERENCE_INVALID: { exit: 20, summary: 'an image reference is not well-formed' },
  DIGEST_INVALID: { exit: 20, summary: 'a digest is not well-formed' },
  PLATFORM_INVALID: { exit: 20, summary: 'a platform is not well-formed' },
  OCI_BLOB_CORRUPT: { exit: 23, summary: 'bytes do not have the digest or size that they are known by' },
  OCI_BLOB_INCOMPLETE: { exit: 23, summary: 'a transfer broke off again and again' },
  OCI_BLOB_MISSING: { exit: 23, summary: 'a blob is not in the store' },
  OCI_STORE_INVALID: { exit: 24, summary: 'the store is not an OCI image layout that this version can use' },
  OCI_STORE_BUSY: { exit: 24, summary: 'another process holds a lock of the store for too long' },
  OCI_LAYER_INVALID: { exit: 25, summary: 'a layer is not a well-formed archive' },
  OCI_LAYER_UNSAFE: {
    exit: 25,
    summary: 'a layer holds an entry that is ambiguous or would reach outside its root',
  },
  OCI_LAYER_LIMIT: { exit: 25, summary: 'a layer is larger, deeper or longer than the limits allow' },
  OCI_LAYER_WRITE: { exit: 25, summary: 'an unpacked layer could not be written' },
  OCI_LAYER_DIFFID: { exit: 23, summary: 'a layer does not unpack to the digest that the image declares' },
  OCI_MANIFEST_INVALID: { exit: 21, summary: 'a manifest, index or image config is malformed' },
  OCI_PLATFORM_MISSING: { exit: 22, summary: 'the image does not exist for the platform asked for' },
  OCI_TRANSPORT_INVALID: { exit: 20, summary: 'a source or target of images is not well-formed' },
  OCI_LAYOUT_INVALID: { exit: 24, summary: 'a folder or archive is not an OCI image layout' },
  OCI_ARCHIVE_INVALID: { exit: 24, summary: 'a file is not an archive of images' },
  OCI_ARCHIVE_WRITE: { exit: 24, summary: 'an image layout or archive could not be written' },
  OCI_CONVERSION_IMPOSSIBLE: { exit: 28, summary: 'the target cannot hold such an image' },
  OCI_DAEMON_UNREACHABLE: { exit: 26, summary: 'no Docker daemon answers' },
  OCI_DAEMON_REFUSED: { exit: 28, summary: 'the Docker daemon refuses what it was asked or sent' },
  OCI_EDIT_INVALID: { exit: 21, summary: 'a change that does not fit the image or index' },
  OCI_REBASE_REFUSED: { exit: 21, summary: 'an image cannot be put on another base safely' },
  OCI_IMAGE_MISSING: { exit: 20, summary: 'no such image in the store' },
  REGISTRY_UNREACHABLE: { exit: 26, summary: 'a registry cannot be reached' },
  REGISTRY_TLS: { exit: 26, summary: "a registry's certificate is not trusted, or TLS failed" },
  REGISTRY_ADDRESS_REFUSED: { exit: 26, summary: 'an answer led to an address that it must not lead to' },
  REGISTRY_BLOCKED: { exit: 26, summary: 'the configuration blocks this registry' },
  REGISTRY_UNAUTHORIZED: { exit: 27, summary: 'a registry wants other credentials, or any at all' },
  REGISTRY_FORBIDDEN: { exit: 27, summary: 'the credentials do not allow this' },
  REGISTRY_AUTH_INVALID: {
    exit: 27,
    summary: 'a registry asks for authentication in an unsafe or unknown way',
  },
  REGISTRY_NOT_FOUND: { exit: 20, summary: 'the registry has no such repository, tag, manifest or blob' },
  REGISTRY_UNSUPPORTED: { exit: 28, summary: 'the registry does not offer this operation' },
  REGISTRY_REFUSED: { exit: 28, summary: 'the registry refuses what it was asked or sent' },
  REGISTRY_BUSY: { exit: 28, summary: 'the registry limits or fails requests for longer than we wait' },
  REGISTRY_ANSWER_INVALID: { exit: 29, summary: 'an answer that breaks the distribution protocol' },
  REGISTRY_ANSWER_TOO_LARGE: { exit: 29, summary: 'an answer longer than such an answer may be' },
  REGISTRY_TRUNCATED: { exit: 29, summary: 'a transfer that keeps ending early' },
  REGISTRY_DIGEST_MISMATCH: {
    exit: 23,
    summary: 'the registry sent bytes that do not have the digest asked for',
  },
  CREDENTIALS_FILE_INVALID: { exit: 2, summary: 'a credentials file that cannot be read or written' },
  CREDENTIALS_HELPER_FAILED: { exit: 27, summary: 'a credential helper that is missing, fails or hangs' },
  REGISTRY_SERVE_FAILED: { exit: 28, summary: 'the built-in registry cannot listen' },
});

/**
 * A fault of an image's bytes, told of the image: with its name before the message, unless it says that already.
 * Every other error stays as it is.
 */
export function imageFault(subject: string, error: unknown): unknown {
  if (!isSkycapError(error) || !error.code.startsWith('OCI_') || error.message.includes(subject))
    return error;
  const { code, exitCode, hint, place, details } = error;
  return new SkycapError(code, exitCode, `${subject}: ${error.message}`, {
    ...(hint === undefined ? {} : { hint }),
    ...(place === undefined ? {} : { place }),
    ...(details === undefined ? {} : { details }),
    cause: error.cause,
  });
}
