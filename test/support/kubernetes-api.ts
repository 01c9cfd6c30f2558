import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';

export interface ApiRequest {
  readonly method: string;
  readonly path: string;
  readonly body: string;
}

export interface KubernetesApi extends AsyncDisposable {
  /** For a step: it cannot reach the loopback of the host, so this is another of its addresses. */
  readonly url: string;
  readonly kubeconfig: string;
  /** What was asked for, discovery left out. */
  readonly requests: readonly ApiRequest[];
  /** What it holds, by path. */
  readonly objects: ReadonlyMap<string, Record<string, unknown>>;
}

/**
 * As much of the Kubernetes API as `kubectl apply` and `delete` of ConfigMaps ask for: discovery, get, create, merge
 * patch, delete (Kubernetes API concepts). It records the requests and keeps the objects.
 */
export async function startKubernetesApi(): Promise<KubernetesApi> {
  const requests: ApiRequest[] = [];
  const objects = new Map<string, Record<string, unknown>>();
  const server = createServer((incoming, response) => {
    void textOf(incoming).then((body) => {
      const path = new URL(incoming.url ?? '/', 'http://api').pathname;
      const request = { method: incoming.method ?? '', path, body };
      const isObject = path.startsWith('/api/v1/');
      if (isObject) requests.push(request);
      const [code, answer] = isObject ? serve(request, objects) : discovery(path);
      response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve));
  const url = `http://${hostAddress()}:${(server.address() as AddressInfo).port}`;
  return {
    url,
    kubeconfig: kubeconfig(url),
    requests,
    objects,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

type Answer = readonly [code: number, body: Record<string, unknown>];

function serve({ method, path, body }: ApiRequest, objects: Map<string, Record<string, unknown>>): Answer {
  const collection = /^\/api\/v1\/namespaces\/[^/]+\/configmaps$/;
  if (method === 'POST' && collection.test(path)) {
    const created = JSON.parse(body) as { metadata: { name: string } };
    objects.set(`${path}/${created.metadata.name}`, created);
    return [201, created];
  }
  const object = objects.get(path);
  if (object === undefined) return notFound;
  if (method === 'DELETE') {
    objects.delete(path);
    return [200, { kind: 'Status', apiVersion: 'v1', status: 'Success' }];
  }
  if (method !== 'PATCH') return [200, object];
  const merged = merge(object, JSON.parse(body) as Record<string, unknown>);
  objects.set(path, merged);
  return [200, merged];
}

const notFound: Answer = [
  404,
  {
    kind: 'Status',
    apiVersion: 'v1',
    status: 'Failure',
    reason: 'NotFound',
    message: 'not found',
    code: 404,
  },
];

function discovery(path: string): Answer {
  if (path === '/api') return [200, { kind: 'APIVersions', versions: ['v1'] }];
  if (path === '/apis') return [200, { kind: 'APIGroupList', apiVersion: 'v1', groups: [] }];
  if (path !== '/api/v1') return notFound;
  const verbs = ['create', 'delete', 'get', 'list', 'patch', 'update'];
  const configMaps = { name: 'configmaps', singularName: '', namespaced: true, kind: 'ConfigMap', verbs };
  return [200, { kind: 'APIResourceList', groupVersion: 'v1', resources: [configMaps] }];
}

/** JSON Merge Patch (RFC 7396). */
function merge(target: Record<string, unknown>, patch: Record<string, unknown>): Record<string, unknown> {
  const result = { ...target };
  for (const [key, value] of Object.entries(patch)) {
    const before = result[key];
    if (value === null) delete result[key];
    else if (isRecord(value)) result[key] = merge(isRecord(before) ? before : {}, value);
    else result[key] = value;
  }
  return result;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk;
  return text;
}

function hostAddress(): string {
  const found = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .find((address) => address.family === 'IPv4' && !address.internal);
  // A machine without a network still has the bridge of its Docker daemon.
  return found?.address ?? '172.17.0.1';
}

function kubeconfig(url: string): string {
  return `apiVersion: v1
kind: Config
clusters: [{name: recorder, cluster: {server: "${url}"}}]
users: [{name: nobody, user: {}}]
contexts: [{name: recorder, context: {cluster: recorder, user: nobody}}]
current-context: recorder
`;
}
