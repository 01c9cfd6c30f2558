// Pure and cheap: the one door of this room that every other may use for values.
export {
  createDigester,
  type DigestAlgorithm,
  type Digester,
  digestOf,
  digestParts,
  isDigest,
  parseDigest,
} from './digest.ts';
export { LARGEST_DOCUMENT } from './limits.ts';
export {
  formatPlatform,
  hostPlatform,
  matchPlatform,
  normalizePlatform,
  type PlatformCandidate,
  parsePlatform,
  platformOrder,
} from './platform.ts';
export { quoted } from './quoted.ts';
export {
  familiarReference,
  formatReference,
  isRegistryHost,
  isRepositoryPath,
  isTag,
  parseReference,
  repositoryOf,
  withDefaultTag,
} from './reference.ts';
export { userFault } from './user.ts';
