export interface ScaffoldFile {
  readonly path: string;
  readonly text: string;
  readonly executable?: boolean;
}

/** A bundle with one parameter, one output and all three actions; lints clean. */
export function bundleFiles(name: string): readonly ScaffoldFile[] {
  return [
    { path: 'porter.yaml', text: porterYaml(name) },
    { path: '.porterignore', text: '# Files that steps do not need, one pattern a line.\nREADME.md\n' },
    { path: 'README.md', text: bundleReadme(name) },
  ];
}

function porterYaml(name: string): string {
  return `# What each key means: docs/bundle.md; for your editor: skycap schema > porter.schema.json
schemaVersion: 1.0.1
name: ${name}
version: 0.1.0
description: Says where what you deploy can be found

# The images that steps run in. skycap lock pins each by digest in porter.lock.
invocationImages:
  - name: tools
    image: docker.io/library/busybox:1.37

parameters:
  - name: place
    type: string
    default: world
    description: Who is greeted

outputs:
  - name: greeting
    type: string
    path: /cnab/app/outputs/greeting
    description: What was said

install:
  - description: Greet
    id: greet
    invoke:
      name: tools
      action:
        run: |
          echo "Hello, \${ bundle.parameters.place }" > /cnab/app/outputs/greeting
      outputs:
        - name: greeting
          path: /cnab/app/outputs/greeting
          sensitive: false

upgrade:
  - description: Greet again
    id: greet-again
    invoke:
      name: tools
      action:
        run: |
          echo "Hello again, \${ bundle.parameters.place }" > /cnab/app/outputs/greeting
      outputs:
        - name: greeting
          path: /cnab/app/outputs/greeting
          sensitive: false

uninstall:
  - description: Say goodbye
    invoke:
      name: tools
      action:
        command: [echo, "Goodbye, \${ bundle.parameters.place }"]
`;
}

function bundleReadme(name: string): string {
  return `# ${name}

\`\`\`sh
skycap lint                 # check porter.yaml
skycap lock                 # pin the images
skycap install --dry-run    # see what would run
skycap install --param place=moon
skycap output list
skycap uninstall
\`\`\`
`;
}

/** An image that describes itself, a bundle that uses it, and a test that needs no engine. */
export function imageFiles(name: string): readonly ScaffoldFile[] {
  const description = {
    description: 'Greets whom it is told to',
    tools: { sh: 'busybox' },
    inputs: { whom: { type: 'string', description: 'Who is greeted', default: 'world' } },
    outputs: { greeting: { type: 'string', description: 'What was said' } },
    command: ['/usr/local/bin/run'],
  };
  return [
    { path: 'image/Dockerfile', text: dockerfile(JSON.stringify(description, null, 2)) },
    { path: 'image/run', text: runScript(), executable: true },
    { path: 'porter.yaml', text: imageTestBundle(name) },
    { path: 'test.sh', text: testScript(), executable: true },
    { path: 'README.md', text: imageReadme(name) },
  ];
}

/** A label's value is one line; a backslash at the line's end goes on. */
function dockerfile(json: string): string {
  const label = json
    .split('\n')
    .map((line) => line.replaceAll("'", ''))
    .join(' \\\n');
  return `FROM docker.io/library/busybox:1.37

# How the image describes itself: inputs arrive as INPUT_NAME and in context.json, outputs are files.
LABEL dev.skycap.interface='${label}'

COPY run /usr/local/bin/run
ENTRYPOINT ["/usr/local/bin/run"]
`;
}

function runScript(): string {
  return `#!/bin/sh
# One call of this program is one step.
set -eu
outputs=\${OUTPUTS:-/cnab/app/outputs}
printf 'Hello, %s\\n' "\${INPUT_WHOM:-world}" > "$outputs/greeting"
`;
}

function imageTestBundle(name: string): string {
  return `# A bundle that runs the image as its users will.
schemaVersion: 1.0.1
name: ${name}-test
version: 0.1.0
description: Runs the image ${name}

invocationImages:
  - name: ${name}
    build: ./image

install:
  - description: Greet
    id: greet
    invoke:
      name: ${name}
      action:
        with:
          whom: moon
      outputs:
        - name: greeting
          path: /cnab/app/outputs/greeting
          sensitive: false
`;
}

function testScript(): string {
  return `#!/bin/sh
# Runs the program of the image by itself and looks at what it gives.
set -eu
here=$(dirname "$0")
outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT
OUTPUTS=$outputs INPUT_WHOM=moon sh "$here/image/run"
found=$(cat "$outputs/greeting")
[ "$found" = "Hello, moon" ] || { echo "greeting is: $found" >&2; exit 1; }
echo "ok"
`;
}

function imageReadme(name: string): string {
  return `# ${name}

An invocation image. \`image/Dockerfile\` describes its inputs and outputs in the label \`dev.skycap.interface\`, so that
steps can say \`with:\` and lint can check them.

\`\`\`sh
sh test.sh        # the program alone
skycap lint       # a bundle that uses it
docker build -t registry.example/${name}:1.0 image
docker push registry.example/${name}:1.0  # then, in porter.yaml: image: in place of build:
\`\`\`
`;
}
