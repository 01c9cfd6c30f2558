const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;
const TIME = /^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(?:\.\d+)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;
const HOST_PART = /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/;

function isDate(text: string): boolean {
  const match = DATE.exec(text);
  if (match === null) return false;
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])];
  return month >= 1 && month <= 12 && day >= 1 && day <= new Date(Date.UTC(year, month, 0)).getUTCDate();
}

function isIpv4(text: string): boolean {
  const parts = text.split('.');
  return (
    parts.length === 4 && parts.every((part) => /^(?:0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255)
  );
}

function isIpv6(text: string): boolean {
  if (text.length > 45 || !/^[0-9A-Fa-f:.]+$/.test(text)) return false;
  const halves = text.split('::');
  if (halves.length > 2) return false;
  const groups = halves.flatMap((half) => (half === '' ? [] : half.split(':')));
  const last = groups.at(-1);
  const tail = last?.includes('.') === true;
  if (tail && !isIpv4(last)) return false;
  const plain = tail ? groups.slice(0, -1) : groups;
  if (!plain.every((group) => /^[0-9A-Fa-f]{1,4}$/.test(group))) return false;
  const count = plain.length + (tail ? 2 : 0);
  return halves.length === 2 ? count <= 7 : count === 8;
}

/**
 * Formats of draft-07 (section 7.3) that are checked. Each is linear in the text; others are annotations and pass.
 * `regex` is left to the pattern engine.
 */
export const formats: Readonly<Record<string, (text: string) => boolean>> = {
  date: isDate,
  time: (text) => TIME.test(text),
  'date-time': (text) => /^.{10}[tT ]/.test(text) && isDate(text.slice(0, 10)) && TIME.test(text.slice(11)),
  email: (text) => {
    const at = text.lastIndexOf('@');
    return at > 0 && at <= 64 && /^[^\s@]+$/.test(text.slice(0, at)) && isHostname(text.slice(at + 1));
  },
  hostname: isHostname,
  ipv4: isIpv4,
  ipv6: isIpv6,
  uuid: (text) => /^(?:urn:uuid:)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/.test(text),
  uri: (text) => /^[A-Za-z][A-Za-z0-9+.-]*:[^\s<>"{}|\\^`]+$/.test(text),
};

function isHostname(text: string): boolean {
  return text.length <= 253 && text.split('.').every((part) => HOST_PART.test(part));
}
