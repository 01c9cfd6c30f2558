/** What needs the YAML library; reached by `loadDocument()` so that nothing loads it at start-up. */
export { parseJson } from './json.ts';
export { parseYaml } from './yaml.ts';
