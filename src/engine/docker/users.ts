import { engineError } from '../errors.ts';
import type { Owner } from './tar.ts';

export interface Accounts {
  /** Text of /etc/passwd; undefined where the image has none. */
  readonly passwd: string | undefined;
  readonly group: string | undefined;
}

/**
 * `name`, `uid`, `name:group`, `uid:gid` or nothing (root) as numbers (image-spec, config.md, "User"). A number needs
 * no entry; its group is that of its entry, else 0.
 *
 * @throws ENGINE_USER_UNKNOWN
 */
export function resolveUser(user: string, accounts: Accounts, image: string): Owner {
  const colon = user.indexOf(':');
  const name = colon === -1 ? user : user.slice(0, colon);
  const group = colon === -1 ? undefined : user.slice(colon + 1);
  const users = lines(accounts.passwd, 7);
  const byName = users.find((fields) => fields[0] === name);
  const uid = name === '' ? 0 : (number(byName?.[2]) ?? number(name));
  if (uid === undefined) throw unknown(image, `user ${JSON.stringify(name)}`, '/etc/passwd');
  if (group === undefined || group === '') {
    const account = byName ?? users.find((fields) => number(fields[2]) === uid);
    return { uid, gid: number(account?.[3]) ?? 0 };
  }
  const gid = number(lines(accounts.group, 4).find((fields) => fields[0] === group)?.[2]) ?? number(group);
  if (gid === undefined) throw unknown(image, `group ${JSON.stringify(group)}`, '/etc/group');
  return { uid, gid };
}

function lines(text: string | undefined, fields: number): string[][] {
  return (text ?? '')
    .split('\n')
    .map((line) => line.split(':'))
    .filter((line) => line.length >= fields - 1);
}

function number(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,10}$/.test(text) && Number(text) < 2 ** 32 - 1
    ? Number(text)
    : undefined;
}

function unknown(image: string, what: string, file: string): Error {
  return engineError('ENGINE_USER_UNKNOWN', `image ${image} has no ${what} in its ${file}`, {
    hint: 'name a numeric user, or one that the image has',
  });
}
