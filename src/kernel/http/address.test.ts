import { describe, expect, it } from 'vitest';
import { allowAddresses, classifyAddress, proxyFor, proxySettings } from './index.ts';

describe('classifyAddress', () => {
  it.each([
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['::1', 'loopback'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::ffff:7f00:1', 'loopback'],
    ['::7f00:1', 'loopback'],
    ['64:ff9b::7f00:1', 'loopback'],
    ['2002:7f00:1::', 'loopback'],
    ['10.0.0.1', 'private'],
    ['172.16.0.1', 'private'],
    ['172.31.255.255', 'private'],
    ['172.32.0.0', 'public'],
    ['172.15.255.255', 'public'],
    ['192.168.1.1', 'private'],
    ['100.64.0.1', 'private'],
    ['100.128.0.0', 'public'],
    ['fd12::1', 'private'],
    ['fc00::1', 'private'],
    ['fec0::1', 'private'],
    ['::ffff:10.1.2.3', 'private'],
    ['169.254.0.1', 'link-local'],
    ['169.254.169.254', 'metadata'],
    ['::ffff:169.254.169.254', 'metadata'],
    ['fd00:ec2::254', 'metadata'],
    ['168.63.129.16', 'metadata'],
    ['fe80::1%eth0', 'link-local'],
    ['0.0.0.0', 'reserved'],
    ['::', 'reserved'],
    ['224.0.0.1', 'reserved'],
    ['255.255.255.255', 'reserved'],
    ['ff02::1', 'reserved'],
    ['2001:db8::1', 'reserved'],
    ['8.8.8.8', 'public'],
    ['2606:4700::1111', 'public'],
    ['::ffff:8.8.8.8', 'public'],
    ['localhost', 'reserved'],
    ['127.1', 'reserved'],
    ['0x7f000001', 'reserved'],
    ['', 'reserved'],
  ])('%s is %s', (address, expected) => {
    expect(classifyAddress(address)).toBe(expected);
  });

  it('makes a check that gives the reason', () => {
    const check = allowAddresses(['public']);
    expect(check('8.8.8.8')).toBeUndefined();
    expect(check('10.0.0.1')).toBe('10.0.0.1 is a private address');
  });
});

describe('proxyFor', () => {
  const env = {
    HTTP_PROXY: 'http://p:1',
    HTTPS_PROXY: 'q:2',
    NO_PROXY: 'a.test,.b.test *.c.test, d.test:8443,10.0.0.0/8,fd00::/8,192.168.1.7',
  };
  it.each([
    ['http://x.test/', 'http://p:1/'],
    ['https://x.test/', 'http://q:2/'],
    ['https://a.test/', undefined],
    ['https://sub.a.test/', undefined],
    ['https://aa.test/', 'http://q:2/'],
    ['https://b.test/', 'http://q:2/'],
    ['https://sub.b.test/', undefined],
    ['https://sub.c.test/', undefined],
    ['https://d.test/', 'http://q:2/'],
    ['https://d.test:8443/', undefined],
    ['https://10.1.2.3/', undefined],
    ['https://11.1.2.3/', 'http://q:2/'],
    ['https://[fd00::1]/', undefined],
    ['https://192.168.1.7/', undefined],
    ['https://localhost/', undefined],
    ['http://127.0.0.1:5000/', undefined],
    ['http://[::1]:5000/', undefined],
  ])('%s goes through %s', (url, proxy) => {
    expect(proxyFor(new URL(url), proxySettings(env))?.href).toBe(proxy);
  });

  it('reads lower case first and ALL_PROXY last', () => {
    expect(
      proxySettings({ https_proxy: 'http://low:1', HTTPS_PROXY: 'http://up:1', ALL_PROXY: 'http://all:1' }),
    ).toEqual({
      httpProxy: 'http://all:1',
      httpsProxy: 'http://low:1',
    });
    expect(proxySettings({ HTTP_PROXY: '' })).toEqual({});
    expect(proxyFor(new URL('https://x.test'), { httpsProxy: 'http://p', noProxy: '*' })).toBeUndefined();
    expect(() => proxyFor(new URL('https://x.test'), { httpsProxy: 'socks5://p' })).toThrow('socks5');
  });
});
