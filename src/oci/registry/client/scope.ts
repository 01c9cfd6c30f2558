/**
 * `repository:a/b:pull` is covered by `repository:a/b:pull,push` (docs.docker.com, "Token Scope Documentation"). The
 * actions stand behind the last colon: the name may hold that of a port.
 */
export function covers(granted: ReadonlySet<string>, wanted: string): boolean {
  if (granted.has(wanted)) return true;
  const [name, actions] = splitScope(wanted);
  return [...granted].some((scope) => {
    const [other, allowed] = splitScope(scope);
    return other === name && actions.every((action) => allowed.includes(action));
  });
}

function splitScope(scope: string): readonly [string, readonly string[]] {
  const colon = scope.lastIndexOf(':');
  return [scope.slice(0, Math.max(colon, 0)), scope.slice(colon + 1).split(',')];
}

/** What we need first, since some servers read the first one only; then what the challenge names beyond that. */
export function mergeScopes(wanted: readonly string[], challenged: string | undefined): readonly string[] {
  const extra = (challenged ?? '')
    .split(' ')
    .filter((scope) => scope !== '' && !covers(new Set(wanted), scope));
  return [...wanted, ...extra];
}
