const MAX_INT32 = 0x7fffffff;

/**
 * What is wrong with the user of an image (`USER`, `USER:GROUP`, names or numbers); undefined where nothing is.
 * Numbers above int32 have wrapped to root elsewhere (CVE-2024-40635).
 */
export function userFault(user: string): string | undefined {
  if (/[\0\n]/.test(user)) return 'holds a control character';
  const bad = user
    .split(':')
    .find((part) => /^[+-]?[0-9]+$/.test(part) && !(Number(part) >= 0 && Number(part) <= MAX_INT32));
  return bad === undefined ? undefined : `has the id ${bad}, which is out of range`;
}
