import { expect, it } from 'vitest';
import { runProcess } from './process.ts';

it('a helper gets nothing of our environment but what it needs', async () => {
  process.env.SOMEBODYS_TOKEN = 'a-secret-of-the-user';
  try {
    const { stdout } = await runProcess('env', []);
    expect(stdout.toString()).toContain('PATH=');
    expect(stdout.toString()).not.toContain('a-secret-of-the-user');
  } finally {
    delete process.env.SOMEBODYS_TOKEN;
  }
});
