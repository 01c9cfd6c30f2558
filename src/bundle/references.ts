import type { NamePattern } from './shape.ts';

// The whole grammar lives in the room oci and is applied when an image is resolved; these patterns find, with a place
// in the file, what can never be a reference.
const HOST = '(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:]+\\])(?::[0-9]{1,5})?';
const PART = '[a-z0-9]+(?:(?:\\.|_{1,2}|-+)[a-z0-9]+)*';
const NAME = `(?:${HOST}/)?${PART}(?:/${PART})*`;
const TAG = '[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}';
const DIGEST = 'sha256:[a-f0-9]{64}|sha512:[a-f0-9]{128}';

export const repository: NamePattern = {
  pattern: new RegExp(`^${NAME}$`),
  says: 'a repository like `ghcr.io/acme/tool` in lower case, without tag or digest',
};
export const tag: NamePattern = {
  pattern: new RegExp(`^${TAG}$`),
  says: 'a tag: letters, digits, `_`, `.` and `-`, at most 128',
};
export const digest: NamePattern = {
  pattern: new RegExp(`^(?:${DIGEST})$`),
  says: 'a digest: `sha256:` and 64 hexadecimal digits',
};
export const imageReference: NamePattern = {
  pattern: new RegExp(`^${NAME}(?::${TAG})?(?:@(?:${DIGEST}))?$`),
  says: 'an image reference like `ghcr.io/acme/tool:1.2` or `…@sha256:…`, in lower case and without `https://`',
};
