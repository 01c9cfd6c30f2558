import { isSkycapError } from '../../kernel/index.ts';
import { operate, type StoreOperation } from './store-operations.ts';

// A process of its own that does one thing with a store, so that a test can stop it at a named step (`failpoint`).
// Arguments: the operation, the folder of the store, the folder of the one to pull from. Says its error's code.
const [operation, directory, source] = process.argv.slice(2) as [StoreOperation, string, string];
try {
  await operate(operation, { directory, source });
} catch (error) {
  process.stdout.write(isSkycapError(error) ? error.code : String(error));
  process.exitCode = 1;
}
