import { BlockList, isIP } from 'node:net';
import { namesLoopback } from './address.ts';
import { HttpFailure } from './failure.ts';
import type { ProxySettings } from './types.ts';

/** From environment values; lower case wins, as in curl. `HTTP_PROXY` in capitals is taken too (Go does). */
export function proxySettings(env: Readonly<Record<string, string | undefined>>): ProxySettings {
  const pick = (name: string): string | undefined => {
    const value = env[name.toLowerCase()] ?? env[name];
    return value === undefined || value === '' ? undefined : value;
  };
  const httpProxy = pick('HTTP_PROXY') ?? pick('ALL_PROXY');
  const httpsProxy = pick('HTTPS_PROXY') ?? pick('ALL_PROXY');
  const noProxy = pick('NO_PROXY');
  return {
    ...(httpProxy === undefined ? {} : { httpProxy }),
    ...(httpsProxy === undefined ? {} : { httpsProxy }),
    ...(noProxy === undefined ? {} : { noProxy }),
  };
}

/**
 * The proxy for this address, or undefined for a direct connection. Loopback never goes through a proxy.
 *
 * @throws HttpFailure `proxy` for a proxy address that is no http or https URL; without the address, which may hold a password
 */
export function proxyFor(url: URL, settings: ProxySettings | undefined): URL | undefined {
  const value = url.protocol === 'https:' ? settings?.httpsProxy : settings?.httpProxy;
  if (settings === undefined || value === undefined) return undefined;
  const host = url.hostname.replace(/^\[|\]$/g, '').toLowerCase();
  if (namesLoopback(url) || host.endsWith('.localhost')) return undefined;
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port;
  const exempt = (settings.noProxy ?? '').split(/[\s,]+/).filter((entry) => entry !== '');
  if (exempt.some((entry) => matches(entry.toLowerCase(), host, port))) return undefined;
  const text = value.includes('://') ? value : `http://${value}`;
  const where = `the proxy for ${url.protocol.slice(0, -1)} addresses`;
  if (!URL.canParse(text)) throw new HttpFailure('proxy', `${where} is no address`);
  const proxy = new URL(text);
  if (proxy.protocol === 'http:' || proxy.protocol === 'https:') return proxy;
  throw new HttpFailure(
    'proxy',
    `${where} is of the kind ${proxy.protocol.slice(0, -1)}, which is not supported`,
  );
}

function matches(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true;
  const version = isIP(host);
  const cidr = /^(.+)\/(\d{1,3})$/.exec(entry);
  if (cidr !== null) return version !== 0 && inSubnet(host, cidr[1] as string, Number(cidr[2]));
  if (isIP(entry) !== 0) return entry === host;
  const withPort = /^\[?(.*?)\]?:(\d+)$/.exec(entry);
  if (withPort !== null && withPort[2] !== port) return false;
  const name = (withPort === null ? entry : (withPort[1] as string)).replace(/^\*/, '');
  if (name.startsWith('.')) return host.endsWith(name);
  return host === name || host.endsWith(`.${name}`);
}

function inSubnet(host: string, base: string, bits: number): boolean {
  const family = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4');
  if (isIP(base) === 0 || bits > (isIP(base) === 6 ? 128 : 32)) return false;
  const list = new BlockList();
  list.addSubnet(base, bits, family(base));
  return list.check(host, family(host));
}
