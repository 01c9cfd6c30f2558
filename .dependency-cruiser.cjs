// The rooms and their arrows: docs/architecture.md. A room is entered by its index.ts only; `kernel/system`,
// `kernel/http`, `document/expression` and the folders of implementations have doors of their own.
const rooms = {
  kernel: [],
  document: ['kernel'],
  settings: ['kernel', 'document'],
  oci: ['kernel'],
  bundle: ['kernel', 'document'],
  images: ['kernel', 'document', 'oci', 'bundle'],
  engine: ['kernel', 'oci'],
  plan: ['kernel', 'document', 'bundle'],
  state: ['kernel'],
  run: ['kernel', 'document', 'plan'],
  secrets: ['kernel'],
  installation: [
    'kernel',
    'document',
    'oci',
    'bundle',
    'images',
    'engine',
    'plan',
    'state',
    'run',
    'secrets',
  ],
  cli: [
    'kernel',
    'document',
    'settings',
    'oci',
    'bundle',
    'images',
    'engine',
    'plan',
    'state',
    'run',
    'secrets',
    'installation',
  ],
  testkit: [
    'kernel',
    'document',
    'settings',
    'oci',
    'bundle',
    'images',
    'engine',
    'plan',
    'state',
    'run',
    'secrets',
    'installation',
  ],
};
// `*` in the table of rooms: types of values or ports, and pure parsers.
const typesOnly = {
  oci: ['settings'],
  engine: ['settings'],
  images: ['settings'],
  secrets: ['settings'],
  state: ['settings'],
  installation: ['settings'],
  bundle: ['oci'],
  plan: ['oci', 'engine'],
  run: ['engine', 'state'],
};
const forbidden = [
  {
    name: 'no-cycles',
    severity: 'error',
    from: { path: '^src' },
    to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only', 'dynamic-import'] } },
  },
  {
    name: 'testkit-in-tests-only',
    severity: 'error',
    from: { path: '^src', pathNot: ['^src/testkit', '\\.test\\.ts$', '\\.contract\\.ts$'] },
    to: { path: '^src/testkit' },
  },
  {
    name: 'through-the-door',
    severity: 'error',
    from: { path: '^src/([^/]+)/', pathNot: ['\\.test\\.ts$', '^src/testkit/'] },
    to: {
      path: '^src/[^/]+/',
      pathNot: [
        '^src/$1/',
        '^src/[^/]+/index\\.ts$',
        '^src/[^/]+/[^/]+/index\\.ts$',
        '^src/[^/]+/[^/]+/[^/]+/index\\.ts$',
      ],
    },
  },
  {
    name: 'no-orphan-packages',
    severity: 'error',
    from: { path: '^src' },
    to: { dependencyTypes: ['npm-no-pkg', 'npm-unknown'] },
  },
  { name: 'resolvable', severity: 'error', from: { path: '^src' }, to: { couldNotResolve: true } },
];
for (const [room, allowed] of Object.entries(rooms)) {
  const soft = typesOnly[room] ?? [];
  forbidden.push({
    name: `arrows-of-${room}`,
    severity: 'error',
    from: { path: `^src/${room}/`, pathNot: ['\\.test\\.ts$', '\\.contract\\.ts$'] },
    to: { path: '^src/', pathNot: [room, ...allowed, ...soft].map((r) => `^src/${r}/`) },
  });
  if (soft.length > 0) {
    forbidden.push({
      name: `types-only-of-${room}`,
      severity: 'error',
      from: { path: `^src/${room}/`, pathNot: ['\\.test\\.ts$', '\\.contract\\.ts$'] },
      // Pure parsers (references, digests) stand in oci/names and may be used as values.
      to: {
        path: soft.map((r) => `^src/${r}/`),
        dependencyTypesNot: ['type-only'],
        pathNot: ['^src/oci/names/index\\.ts$'],
      },
    });
  }
}
module.exports = {
  forbidden,
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'types'] },
  },
};
