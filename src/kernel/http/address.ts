import { isIP } from 'node:net';
import type { AddressCheck } from './types.ts';

export type AddressClass = 'loopback' | 'private' | 'link-local' | 'metadata' | 'reserved' | 'public';

const V4: readonly (readonly [string, number, AddressClass])[] = [
  ['169.254.169.254', 32, 'metadata'],
  // Azure answers for instance secrets on an address that looks public.
  ['168.63.129.16', 32, 'metadata'],
  ['127.0.0.0', 8, 'loopback'],
  ['169.254.0.0', 16, 'link-local'],
  ['10.0.0.0', 8, 'private'],
  ['172.16.0.0', 12, 'private'],
  ['192.168.0.0', 16, 'private'],
  ['100.64.0.0', 10, 'private'],
  ['0.0.0.0', 8, 'reserved'],
  ['192.0.0.0', 24, 'reserved'],
  ['192.0.2.0', 24, 'reserved'],
  ['198.18.0.0', 15, 'reserved'],
  ['198.51.100.0', 24, 'reserved'],
  ['203.0.113.0', 24, 'reserved'],
  ['224.0.0.0', 4, 'reserved'],
  ['240.0.0.0', 4, 'reserved'],
];

function v4Number(address: string): number {
  return address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
}

function classifyV4(value: number): AddressClass {
  for (const [base, bits, name] of V4) {
    const size = 2 ** (32 - bits);
    if (Math.floor(value / size) === Math.floor(v4Number(base) / size)) return name;
  }
  return 'public';
}

/** Eight 16-bit groups of a valid IPv6 address, zone removed. */
function v6Groups(address: string): number[] {
  let text = address.replace(/%.*$/, '');
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  if (dotted !== null) {
    const value = v4Number(dotted[2] as string);
    text = `${dotted[1]}${Math.floor(value / 65536).toString(16)}:${(value % 65536).toString(16)}`;
  }
  const [head = '', tail] = text.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const fill = tail === undefined ? [] : new Array<string>(8 - left.length - right.length).fill('0');
  return [...left, ...fill, ...right].map((group) => Number.parseInt(group, 16));
}

function classifyV6(address: string): AddressClass {
  const groups = v6Groups(address);
  const at = (index: number): number => groups[index] ?? 0;
  const zeroUpTo = (count: number): boolean => groups.slice(0, count).every((group) => group === 0);
  const embedded = (index: number): AddressClass => classifyV4(at(index) * 65536 + at(index + 1));
  if (zeroUpTo(7)) return at(7) === 1 ? 'loopback' : 'reserved';
  // An IPv4 address in IPv6 clothes is judged as what it leads to: mapped, compatible, NAT64, 6to4.
  if (zeroUpTo(5) && at(5) === 0xffff) return embedded(6);
  if (zeroUpTo(6)) return embedded(6);
  if (at(0) === 0x64 && at(1) === 0xff9b && groups.slice(2, 6).every((group) => group === 0))
    return embedded(6);
  if (at(0) === 0x2002) return embedded(1);
  if (at(0) === 0xfd00 && at(1) === 0xec2) return 'metadata';
  if ((at(0) & 0xfe00) === 0xfc00) return 'private';
  if ((at(0) & 0xffc0) === 0xfe80) return 'link-local';
  if ((at(0) & 0xffc0) === 0xfec0) return 'private';
  if ((at(0) & 0xff00) === 0xff00) return 'reserved';
  if (at(0) === 0x2001 && at(1) === 0xdb8) return 'reserved';
  return 'public';
}

/** What a connection to this address reaches (IANA special-purpose registries). Not an address: `reserved`. */
export function classifyAddress(address: string): AddressClass {
  const version = isIP(address.replace(/%.*$/, ''));
  if (version === 4) return classifyV4(v4Number(address));
  if (version === 6) return classifyV6(address);
  return 'reserved';
}

/** Whether a URL names this machine itself, without asking for its address: `localhost` (RFC 6761, 6.3), or a loopback address. */
export function namesLoopback({ hostname }: Pick<URL, 'hostname'>): boolean {
  const name = hostname.replace(/[[\]]/g, '');
  return name === 'localhost' || classifyAddress(name) === 'loopback';
}

/** A check that lets through these classes only. */
export function allowAddresses(classes: readonly AddressClass[]): AddressCheck {
  const allowed = new Set(classes);
  return (address) => {
    const found = classifyAddress(address);
    return allowed.has(found) ? undefined : `${address} is a ${found} address`;
  };
}
