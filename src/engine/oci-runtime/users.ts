import { engineError } from '../errors.ts';
import { readInside } from '../tree/scoped.ts';

export interface ContainerUser {
  readonly uid: number;
  readonly gid: number;
  readonly additionalGids: readonly number[];
  /** From /etc/passwd; `/` where there is no entry. */
  readonly home: string;
}

interface PasswdEntry {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

interface GroupEntry {
  readonly name: string;
  readonly gid: number;
  readonly members: readonly string[];
}

/**
 * The user of an image config as Docker reads it: `name`, `uid`, either with `:group` or `:gid` (image-spec,
 * config.md, "User"). Without a group it is the one of /etc/passwd, with the supplementary groups of /etc/group.
 *
 * @throws ENGINE_USER_UNKNOWN
 */
export function resolveUser(root: string, spec: string, image: string): ContainerUser {
  const [userPart = '', groupPart] = spec.split(':', 2);
  const passwd = parsePasswd(readInside(root, '/etc/passwd'));
  const wanted = userPart === '' ? '0' : userPart;
  const entry = passwd.find((one) => one.name === wanted) ?? passwd.find((one) => String(one.uid) === wanted);
  const uid = entry?.uid ?? idOf(wanted);
  if (uid === undefined) throw unknown(`user ${JSON.stringify(wanted)}`, '/etc/passwd', image);
  const home = entry?.home ?? '/';
  if (groupPart !== undefined && groupPart !== '') {
    const groups = parseGroup(readInside(root, '/etc/group'));
    const gid = groups.find((one) => one.name === groupPart)?.gid ?? idOf(groupPart);
    if (gid === undefined) throw unknown(`group ${JSON.stringify(groupPart)}`, '/etc/group', image);
    return { uid, gid, additionalGids: [], home };
  }
  if (entry === undefined) return { uid, gid: 0, additionalGids: [], home };
  const groups = parseGroup(readInside(root, '/etc/group'));
  const additional = groups.filter((one) => one.members.includes(entry.name) && one.gid !== entry.gid);
  return { uid, gid: entry.gid, additionalGids: [...new Set(additional.map((one) => one.gid))], home };
}

function idOf(text: string): number | undefined {
  if (!/^\d{1,10}$/.test(text)) return undefined;
  const id = Number(text);
  // The map ends at 2^30 - 1; ids above it do not exist inside.
  return id < 2 ** 30 ? id : undefined;
}

function unknown(what: string, file: string, image: string): Error {
  return engineError('ENGINE_USER_UNKNOWN', `image ${image} has no ${what} in its ${file}`, {
    hint: 'name a user that the image has, or a numeric id below 1073741824',
  });
}

function lines(bytes: Buffer | undefined): string[][] {
  return (bytes?.toString('utf8') ?? '')
    .split('\n')
    .map((line) => line.trim().split(':'))
    .filter((fields) => fields.length >= 3 && fields[0] !== '' && !fields[0]?.startsWith('#'));
}

function parsePasswd(bytes: Buffer | undefined): PasswdEntry[] {
  return lines(bytes).flatMap((fields): PasswdEntry[] => {
    const uid = idOf(fields[2] ?? '');
    const gid = idOf(fields[3] ?? '');
    if (uid === undefined || gid === undefined) return [];
    return [
      {
        name: fields[0] as string,
        uid,
        gid,
        home: fields[5] === undefined || fields[5] === '' ? '/' : fields[5],
      },
    ];
  });
}

function parseGroup(bytes: Buffer | undefined): GroupEntry[] {
  return lines(bytes).flatMap((fields): GroupEntry[] => {
    const gid = idOf(fields[2] ?? '');
    return gid === undefined
      ? []
      : [{ name: fields[0] as string, gid, members: (fields[3] ?? '').split(',') }];
  });
}
