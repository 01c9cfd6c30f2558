import { expect, it } from 'vitest';
import { codeOf } from '../../testkit/images/index.ts';
import { formatTransport, parseTransport } from './index.ts';

it.each([
  ['docker:alpine', 'OCI_TRANSPORT_INVALID'],
  ['https://example.com/x', 'OCI_TRANSPORT_INVALID'],
  ['containers-storage:x', 'OCI_TRANSPORT_INVALID'],
  ['oci:', 'OCI_TRANSPORT_INVALID'],
  ['oci:x:', 'OCI_TRANSPORT_INVALID'],
  ['oci:x:a b', 'OCI_TRANSPORT_INVALID'],
  ['oci:x:@one', 'OCI_TRANSPORT_INVALID'],
  ['store:', 'OCI_TRANSPORT_INVALID'],
  [`docker-archive:x:a@sha256:${'0'.repeat(64)}`, 'OCI_TRANSPORT_INVALID'],
  ['docker://UPPER/Case', 'REFERENCE_INVALID'],
  ['a b', 'REFERENCE_INVALID'],
])('%s is %s', (text, code) => {
  expect(codeOf(() => parseTransport(text, 'docker'))).toBe(code);
});

it.each([
  ['alpine', 'docker', 'docker://docker.io/library/alpine:latest'],
  ['alpine', 'store', 'store:docker.io/library/alpine:latest'],
  ['docker://oci:1', 'docker', 'docker://docker.io/library/oci:1'],
  ['store:a/b:1', 'docker', 'store:docker.io/a/b:1'],
  ['oci:/x/y', 'docker', 'oci:/x/y'],
  ['oci:x:1.0', 'docker', 'oci:x:1.0'],
  ['oci:x:registry.test:5000/a/b:1', 'docker', 'oci:x:registry.test:5000/a/b:1'],
  ['oci-archive:x.tar:@3', 'docker', 'oci-archive:x.tar:@3'],
  ['docker-archive:x.tar:a', 'docker', 'docker-archive:x.tar:docker.io/library/a:latest'],
  ['docker-daemon:a:1', 'docker', 'docker-daemon:docker.io/library/a:1'],
  [`docker-daemon:sha256:${'a'.repeat(64)}`, 'docker', `docker-daemon:sha256:${'a'.repeat(64)}`],
] as const)('%s among names of %s is %s', (text, plain, formatted) => {
  const transport = parseTransport(text, plain);
  expect(formatTransport(transport)).toBe(formatted);
  expect(parseTransport(formatted, plain)).toEqual(transport);
});
