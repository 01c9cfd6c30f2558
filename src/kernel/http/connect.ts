import { lookup as systemLookup } from 'node:dns';
import { type AgentOptions, Agent as HttpAgent, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { isIP, type LookupFunction, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createSecureContext, type SecureContext, connect as tlsConnect } from 'node:tls';
import { type RaceSettings, race } from './eyeballs.ts';
import { HttpFailure } from './failure.ts';
import { withIntake } from './lend.ts';
import type { AddressCheck, TlsSettings } from './types.ts';

export interface ConnectSettings {
  readonly checkAddress: AddressCheck | undefined;
  readonly tls: TlsSettings | undefined;
  readonly proxy: URL | undefined;
  readonly connectMs: number;
  readonly maxConnections: number;
}

/** Drops forbidden addresses from what a name resolves to, so that a rebinding name cannot slip through. */
function checkedLookup(check: AddressCheck): LookupFunction {
  return (hostname, options, callback) => {
    systemLookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, '', 0);
      const reasons = addresses.map((entry) => check(entry.address));
      const allowed = addresses.filter((_, index) => reasons[index] === undefined);
      const first = allowed[0];
      if (first === undefined) {
        return callback(
          new HttpFailure('address', `${hostname} leads to ${reasons[0] ?? 'no address'}`),
          '',
          0,
        );
      }
      return options.all === true ? callback(null, allowed) : callback(null, first.address, first.family);
    });
  };
}

/** A literal address is never looked up, so it is checked here. */
export function checkLiteral(url: URL, check: AddressCheck | undefined): void {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (check === undefined || isIP(host) === 0) return;
  const reason = check(host);
  if (reason !== undefined) throw new HttpFailure('address', `${url.origin}: ${reason}`);
}

interface SecureOptions {
  readonly secureContext?: SecureContext;
  readonly rejectUnauthorized?: boolean;
}

/** Made once an agent: reading a hundred authorities again for each connection costs more than the handshake. */
function tlsOptions(tls: TlsSettings | undefined): SecureOptions {
  if (tls === undefined) return {};
  const buffer = (value: string | Uint8Array): string | Buffer =>
    typeof value === 'string' ? value : Buffer.from(value);
  const ca = tls.ca;
  const given = {
    ...(ca === undefined
      ? {}
      : { ca: typeof ca === 'string' || ca instanceof Uint8Array ? buffer(ca) : ca.map(buffer) }),
    ...(tls.cert === undefined ? {} : { cert: buffer(tls.cert) }),
    ...(tls.key === undefined ? {} : { key: buffer(tls.key) }),
  };
  return {
    ...(Object.keys(given).length === 0 ? {} : { secureContext: createSecureContext(given) }),
    ...(tls.insecure === true ? { rejectUnauthorized: false } : {}),
  };
}

interface Guard {
  readonly event: 'connect' | 'secureConnect';
  readonly connectMs: number;
}

/** @param spentMs What of the time went before there was a socket. */
function guardConnect(socket: Duplex, { event, connectMs }: Guard, spentMs = 0): void {
  if (connectMs === 0) return;
  const timer = setTimeout(
    () => socket.destroy(new HttpFailure('timeout', `no connection within ${connectMs} ms`)),
    Math.max(connectMs - spentMs, 1),
  );
  const stop = (): void => clearTimeout(timer);
  socket.once(event, stop);
  socket.once('close', stop);
}

type CreateConnection = HttpAgent['createConnection'];

interface Timed extends Guard {
  readonly lookup: LookupFunction;
}

/** Names are raced for ({@link race}); an address or a socket path is what it is. */
function timed(agent: HttpAgent, { event, connectMs, lookup }: Timed): HttpAgent {
  const create: CreateConnection = agent.createConnection.bind(agent);
  const races = new Set<() => void>();
  agent.createConnection = (options, callback) => {
    const { host = '', socketPath } = options as { host?: string; socketPath?: string };
    const attempt = (address: string): Duplex | null | undefined =>
      withIntake((onread) =>
        // Handed on to net.connect and tls.connect, which know it; the type of an agent's options does not.
        create({ ...options, host: address, onread } as Parameters<CreateConnection>[0]),
      );
    if (socketPath !== undefined || isIP(host) !== 0) {
      const socket = attempt(host);
      if (socket !== null && socket !== undefined) guardConnect(socket, { event, connectMs });
      return socket;
    }
    const settings: RaceSettings = {
      lookup,
      connectMs,
      attempt: ({ address }) => attempt(address) as Socket,
    };
    const begun = performance.now();
    let stop = (): void => {};
    stop = race(host, settings, (error, socket) => {
      races.delete(stop);
      if (socket !== undefined && event === 'secureConnect')
        guardConnect(socket, { event, connectMs }, performance.now() - begun);
      callback?.(error, socket as Duplex);
    });
    races.add(stop);
    return undefined;
  };
  const destroy = agent.destroy.bind(agent);
  agent.destroy = () => {
    for (const stop of races) stop();
    destroy();
  };
  return agent;
}

/** One pool of kept connections. Name look-ups are checked inside, so a kept connection was checked as well. */
export function makeAgent(protocol: string, settings: ConnectSettings): HttpAgent {
  const options: AgentOptions = {
    keepAlive: true,
    maxSockets: settings.maxConnections,
    maxFreeSockets: settings.maxConnections,
    scheduling: 'lifo',
  };
  const { connectMs } = settings;
  const lookup = checkedLookup(settings.checkAddress ?? (() => undefined));
  if (protocol === 'http:') return timed(new HttpAgent(options), { event: 'connect', connectMs, lookup });
  const secureOptions = tlsOptions(settings.tls);
  const agent = new HttpsAgent({ ...options, ...secureOptions });
  if (settings.proxy === undefined) return timed(agent, { event: 'secureConnect', connectMs, lookup });
  const proxy = settings.proxy;
  agent.createConnection = (connection, callback) => {
    const target = connection as { host?: string; port?: number | string; servername?: string };
    const begun = performance.now();
    tunnel(proxy, `${bracketed(target.host ?? '')}:${target.port ?? 443}`, settings.connectMs).then(
      (socket) => {
        const name = target.servername ?? target.host ?? '';
        const secure = tlsConnect({
          ...secureOptions,
          socket,
          ...(isIP(name) === 0 ? { servername: name } : { host: name }),
        });
        guardConnect(secure, { event: 'secureConnect', connectMs }, performance.now() - begun);
        callback?.(null, secure);
      },
      (error: unknown) => callback?.(error as Error, undefined as unknown as Duplex),
    );
    return undefined;
  };
  return agent;
}

function bracketed(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}

/** `Proxy-Authorization` from the proxy's URL (RFC 9110, 11.7.2). */
export function proxyAuthorization(proxy: URL): Record<string, string> {
  if (proxy.username === '' && proxy.password === '') return {};
  const pair = `${percentDecoded(proxy.username)}:${percentDecoded(proxy.password)}`;
  return { 'proxy-authorization': `Basic ${Buffer.from(pair).toString('base64')}` };
}

/** A lone percent sign in a password is itself. */
function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function tunnel(proxy: URL, authority: string, connectMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const ask = proxy.protocol === 'https:' ? httpsRequest : httpRequest;
    const request = ask({
      host: proxy.hostname.replace(/^\[|\]$/g, ''),
      port: proxy.port === '' ? (proxy.protocol === 'https:' ? 443 : 80) : proxy.port,
      method: 'CONNECT',
      path: authority,
      headers: { host: authority, ...proxyAuthorization(proxy) },
      agent: false,
      ...(connectMs === 0 ? {} : { timeout: connectMs }),
    });
    request.once('timeout', () =>
      request.destroy(new HttpFailure('timeout', `proxy ${proxy.host} is silent`)),
    );
    request.once('error', (error) =>
      reject(new HttpFailure('proxy', `proxy ${proxy.host}: ${error.message}`, error)),
    );
    const refuse = (status: number | undefined): void =>
      reject(new HttpFailure('proxy', `proxy ${proxy.host} refused ${authority} with status ${status ?? 0}`));
    request.once('response', (response) => {
      refuse(response.statusCode);
      response.destroy();
    });
    request.once('connect', (response, socket, head) => {
      if (response.statusCode !== 200) {
        socket.destroy();
        return refuse(response.statusCode);
      }
      socket.setTimeout(0);
      if (head.length > 0) socket.unshift(head);
      return resolve(socket as Socket);
    });
    request.end();
  });
}
