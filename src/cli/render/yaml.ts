/** Words that a YAML 1.1 or 1.2 reader would take for something else than a string. */
const looksTyped = /^(~|null|true|false|yes|no|on|off|y|n|[-+]?[.\d].*|0[xo].*)$/i;
const plain = /^[A-Za-z_/][A-Za-z0-9_./@+-]*( [A-Za-z0-9_./@+-]+)*$/;

/**
 * JSON-safe data as YAML in block style. Strings that are not plain words are JSON strings, which YAML reads as they
 * are (YAML 1.2.2, section 5.7); so no value can be read back as another type.
 */
export function toYaml(data: unknown): string {
  const value = JSON.parse(JSON.stringify(data ?? null)) as unknown;
  const lines = block(value, 0);
  return `${lines.join('\n')}\n`;
}

function block(value: unknown, depth: number): string[] {
  const indent = '  '.repeat(depth);
  if (Array.isArray(value) && value.length > 0) {
    return value.flatMap((item) => {
      const [first = '', ...rest] = block(item, depth + 1);
      return [`${indent}- ${first.trimStart()}`, ...rest];
    });
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0) {
    return Object.entries(value).flatMap(([key, item]) => {
      if (isBlock(item)) {
        return [`${indent}${scalar(key)}:`, ...block(item, depth + 1)];
      }
      return [`${indent}${scalar(key)}: ${leaf(item)}`];
    });
  }
  return [`${indent}${leaf(value)}`];
}

function isBlock(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}

function leaf(value: unknown): string {
  return typeof value === 'string' ? scalar(value) : JSON.stringify(value);
}

function scalar(text: string): string {
  // JSON leaves DEL, C1 and U+2028 as they are; YAML wants C1 and DEL escaped.
  const quoted = JSON.stringify(text).replace(
    /[\u007f-\u009f\u2028\u2029\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return plain.test(text) && !looksTyped.test(text) ? text : quoted;
}
