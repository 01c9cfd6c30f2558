/** What needs the YAML library; rooms that are themselves loaded late import it, others call `loadDocument()`. */
export { parseJson } from './json.ts';
export { parseYaml } from './yaml.ts';
