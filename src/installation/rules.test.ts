import { describe, expect, it } from 'vitest';
import type { Installation } from '../state/index.ts';
import { checkAllowed, checkName } from './rules.ts';

function installation(status: Partial<Installation['status']>): Installation {
  return {
    id: 'i',
    namespace: '',
    name: 'shop',
    labels: {},
    custom: {},
    bundle: {},
    parameters: {},
    credentialSources: {},
    status: { created: '1', modified: '1', ...status },
  };
}

const none = undefined;
const installed = installation({ installed: '2026-01-01' });
const failed = installation({ action: 'install', resultStatus: 'failed' });
const gone = installation({ installed: '2026-01-01', uninstalled: '2026-01-02' });

describe('checkAllowed', () => {
  it.each([
    ['install', none, 'yes'],
    ['install', installed, 'INSTALLATION_EXISTS'],
    ['install', failed, 'yes'],
    ['install', gone, 'yes'],
    ['upgrade', none, 'INSTALLATION_NOT_INSTALLED'],
    ['upgrade', installed, 'yes'],
    ['upgrade', failed, 'INSTALLATION_NOT_INSTALLED'],
    ['upgrade', gone, 'INSTALLATION_NOT_INSTALLED'],
    ['uninstall', none, 'INSTALLATION_NOT_FOUND'],
    ['uninstall', failed, 'yes'],
    ['status', none, 'INSTALLATION_NOT_FOUND'],
    ['status', failed, 'yes'],
  ] as const)('%s of %o: %s', (action, before, expected) => {
    const check = () =>
      checkAllowed(before, 'shop', { action, modifies: true, stateless: false, force: false });

    if (expected === 'yes') expect(check).not.toThrow();
    else expect(check).toThrow(expect.objectContaining({ code: expected }));
  });

  it('lets a stateless action that does not modify run without an installation', () => {
    expect(() =>
      checkAllowed(none, 'shop', { action: 'help', modifies: false, stateless: true, force: false }),
    ).not.toThrow();
  });
});

describe('checkName', () => {
  it.each(['shop', 'a.b-c_D', '0'])('takes %s', (name) => {
    expect(() => checkName('installation', name)).not.toThrow();
  });

  it.each(['', 'a b', '../x', '-x', 'a/b', 'x\n', 'x'.repeat(129)])('refuses %j', (name) => {
    expect(() => checkName('installation', name)).toThrow(
      expect.objectContaining({ code: 'INSTALLATION_NAME' }),
    );
  });
});
