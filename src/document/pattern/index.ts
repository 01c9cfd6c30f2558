import { JSONPathEnvironment } from 'json-p3';
import { RE2JS } from 're2js';
import type { Json } from '../types.ts';

/**
 * Patterns and queries that come from bundles. Regular expressions are RE2's, matched in linear time: a backtracking
 * engine can be stopped for seconds by one short line (docs/security.md, "Text").
 */
export interface CompiledPattern {
  readonly source: string;
  readonly groupCount: number;
  test(text: string): boolean;
  /** Every capture group of every match, in order; a group that took no part is left out. */
  groupsOfAllMatches(text: string): readonly string[];
}

/** @throws Error with RE2's own words where the pattern is none. */
export function compilePattern(source: string): CompiledPattern {
  const compiled = RE2JS.compile(source);
  return {
    source,
    groupCount: compiled.groupCount(),
    test: (text) => compiled.matcher(text).find(),
    groupsOfAllMatches(text) {
      const groups: string[] = [];
      const matcher = compiled.matcher(text);
      while (matcher.find()) {
        for (let group = 1; group <= matcher.groupCount(); group += 1) {
          const value = matcher.group(group);
          if (value !== null && value !== undefined) groups.push(value);
        }
      }
      return groups;
    },
  };
}

const environment = new JSONPathEnvironment();

/** The values that an RFC 9535 query finds. @throws Error where the query is none. */
export function queryJson(value: Json, query: string): readonly Json[] {
  return environment.query(query, value as never).values() as Json[];
}

/** @throws Error with the parser's words. */
export function checkQuery(query: string): void {
  environment.compile(query);
}
