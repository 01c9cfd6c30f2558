export { createFakeEngine, type FakeEngine, type FakeEngineOptions } from './engine.ts';
export { exit, type FakeFiles, type FakeProcess, type FakeProgram } from './program.ts';
export { type FakeImage, FakeWorld } from './world.ts';
