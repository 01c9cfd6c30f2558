/** `840ms`, `3.2s`, `1m05s`, `2h03m`; nothing took less than no time, even where the clock was set back meanwhile. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1_000) {
    return `${Math.max(0, Math.round(milliseconds))}ms`;
  }
  const seconds = milliseconds / 1_000;
  if (seconds < 60) {
    return `${(Math.floor(seconds * 10) / 10).toFixed(1)}s`;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) {
    return `${minutes}m${String(Math.floor(seconds % 60)).padStart(2, '0')}s`;
  }
  return `${Math.floor(minutes / 60)}h${String(minutes % 60).padStart(2, '0')}m`;
}

/** Decimal units, as registries and disks count: `999 B`, `1.2 MB`. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1_000;
    unit++;
  }
  return unit === 0 ? `${value} B` : `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** `1 layer`, `0 layers`. */
export function counted(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`;
}

/** The time since, as kubectl says it: `45s`, `12m`, `3h`, `4d`, `2y`. */
export function formatAge(isoTime: string, nowMs: number): string {
  const seconds = Math.max(0, Math.floor((nowMs - Date.parse(isoTime)) / 1_000));
  if (Number.isNaN(seconds)) {
    return isoTime;
  }
  const steps: readonly (readonly [number, string, number])[] = [
    [120, 's', 1],
    [7_200, 'm', 60],
    [172_800, 'h', 3_600],
    [63_072_000, 'd', 86_400],
  ];
  const [, unit, divisor] = steps.find(([limit]) => seconds < limit) ?? [0, 'y', 31_536_000];
  return `${Math.floor(seconds / divisor)}${unit}`;
}

export function shortDigest(digest: string): string {
  const [algorithm, hex] = digest.split(':');
  return hex === undefined ? digest.slice(0, 12) : `${algorithm}:${hex.slice(0, 12)}`;
}
