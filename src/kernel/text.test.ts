import { stripVTControlCharacters } from 'node:util';
import { describe, expect, it } from 'vitest';
import { fc } from '../testkit/property.ts';

import {
  type CiSystem,
  ciSystem,
  clipNames,
  escapeLine,
  escapeTerminal,
  neutraliseWorkflowCommands,
} from './text.ts';

const controls = [
  ...Array.from({ length: 0x20 }, (_, code) => code).filter((code) => code !== 9 && code !== 10),
  ...Array.from({ length: 0x21 }, (_, offset) => 0x7f + offset),
  ...[
    0x61c, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068,
    0x2069,
  ],
].map((code) => String.fromCharCode(code));

describe('escaping for terminals', () => {
  it('leaves no control in any text', () => {
    const unit = fc.oneof(
      fc.constantFrom(...controls, '\n', '\t', '\\', 'x', '[31m'),
      fc.string({ unit: 'binary', maxLength: 3 }),
    );
    fc.assert(
      fc.property(fc.array(unit, { maxLength: 30 }), (parts) => {
        const safe = escapeTerminal(parts.join(''));
        for (const control of controls) {
          if (control === '\r') expect(safe.replaceAll('\r\n', '')).not.toContain(control);
          else expect(safe).not.toContain(control);
        }
        expect(safe.isWellFormed()).toBe(true);
        expect(stripVTControlCharacters(safe)).toBe(safe);
        expect(escapeTerminal(safe)).toBe(safe);
        expect(escapeLine(parts.join(''))).not.toMatch(/[\r\n\t]/);
      }),
    );
  });

  it('escapes each control by itself and keeps everything else', () => {
    for (const control of controls) {
      const code = control.charCodeAt(0).toString(16);
      const shown =
        control.charCodeAt(0) < 0x100 ? `\\x${code.padStart(2, '0')}` : `\\u${code.padStart(4, '0')}`;
      expect(escapeTerminal(`a${control}b`)).toBe(`a${shown}b`);
    }
    const plain = 'äöü 漢字 🚢\u200d🏽 line\r\nnext\ttab\n';
    expect(escapeTerminal(plain)).toBe(plain);
    expect(escapeTerminal('50%\r100%')).toBe('50%\\x0d100%');
    expect(escapeTerminal('\ud800x\udc00')).toBe('\\ud800x\\udc00');
  });
});

/** What the runners obey, after their sources and manuals. */
const obeyed: readonly RegExp[] = [
  /^\s*::[a-z]/im,
  /##vso\[/i,
  /##\[/,
  /##teamcity\[/i,
  /section_(start|end):\d/,
];

describe('workflow commands', () => {
  const lines = [
    '::add-mask::x',
    '  ::set-output name=a::b',
    '\t::stop-commands::t',
    '::error file=a,line=1::x',
    '##[add-path]/evil',
    '##vso[task.setvariable variable=a]b',
    'text before ##vso[task.prependpath]x',
    '##VSO[task.complete]',
    "##teamcity[setParameter name='a' value='b']",
    'section_start:1560896352:name',
  ];

  it('are broken under each CI, wherever they stand', () => {
    for (const ci of ['github', 'azure', 'gitlab', 'teamcity', 'other'] as const) {
      for (const line of lines) {
        expect(
          obeyed.some((pattern) => pattern.test(line)),
          line,
        ).toBe(true);
        const safe = neutraliseWorkflowCommands(`before\n${line}\nafter\n`, ci);
        expect(
          obeyed.filter((pattern) => pattern.test(safe)),
          line,
        ).toEqual([]);
        expect(safe.replaceAll('\u200b', '')).toBe(`before\n${line}\nafter\n`);
      }
    }
  });

  it('are broken in any mixture', () => {
    const part = fc.constantFrom(
      ...lines,
      '::',
      '##',
      '[',
      ':',
      '#',
      ' ',
      '\n',
      '\r\n',
      'vso[',
      'section_',
      'a',
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
        const safe = neutraliseWorkflowCommands(parts.join(''), 'github');
        expect(obeyed.filter((pattern) => pattern.test(safe))).toEqual([]);
        expect(safe.replaceAll('\u200b', '')).toBe(parts.join(''));
        expect(neutraliseWorkflowCommands(safe, 'github')).toBe(safe);
      }),
    );
  });

  it('stay outside of CI, and ordinary text stays under it', () => {
    for (const line of lines) expect(neutraliseWorkflowCommands(line, undefined)).toBe(line);
    const ordinary = 'std::vector a::b\n## heading\n:: \n# [x]\nhttp://[::1]:80\n';
    expect(neutraliseWorkflowCommands(ordinary, 'github')).toBe(ordinary);
  });

  it('know the systems by their variables', () => {
    const cases: readonly [Record<string, string>, CiSystem | undefined][] = [
      [{}, undefined],
      [{ CI: 'false' }, undefined],
      [{ CI: 'true' }, 'other'],
      [{ CI: 'true', GITHUB_ACTIONS: 'true' }, 'github'],
      [{ TF_BUILD: 'True' }, 'azure'],
      [{ CI: 'true', GITLAB_CI: 'true' }, 'gitlab'],
      [{ TEAMCITY_VERSION: '2024.1' }, 'teamcity'],
    ];
    for (const [environment, system] of cases) expect(ciSystem(environment)).toBe(system);
  });
});

describe('names in messages', () => {
  it('are whole up to 400 characters, and beginning and end of longer ones', () => {
    const name = (length: number) => 'x'.repeat(length);
    expect(clipNames(`no image ${name(400)} here`)).toBe(`no image ${name(400)} here`);
    expect(clipNames(`no image ${name(401)} here`)).toBe(`no image ${name(200)}…${name(100)} here`);
    const words = 'two words '.repeat(500);
    for (const quote of ['"', '`']) {
      const clipped = clipNames(`no step ${quote}${words}${quote} in prose ${quote}short${quote}`);
      expect(clipped).toBe(
        `no step ${quote}${words.slice(0, 200)}…${words.slice(-100)}${quote} in prose ${quote}short${quote}`,
      );
    }
    expect(clipNames(words).length).toBeLessThan(4000);
    expect(clipNames('👩'.repeat(5000)).isWellFormed()).toBe(true);
    expect(clipNames(`${'👩 '.repeat(5000)}`).isWellFormed()).toBe(true);
  });

  it('are clipped out of any text', () => {
    for (const unit of ['"', '`', '"x', '" ', 'x', 'x ', '`"'])
      expect(clipNames(unit.repeat(100_000)).length).toBeLessThanOrEqual(4000);
  });
});
