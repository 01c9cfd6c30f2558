import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Lets a step wait for the test, for however long the test takes: the step sleeps for a time that no other process of
 * this host sleeps for, and the test ends that sleep. The hour is for the case that nobody does.
 */
export interface Gate {
  /** For `sleep` or `busybox sleep`; the script goes on though its sleep was killed: `sleep SECONDS || :`. */
  readonly seconds: string;
  /** A line of a script. */
  readonly wait: string;
  /** Resolves once a step that had begun to wait goes on; waits until there is one. */
  open(): Promise<void>;
}

export function makeGate(): Gate {
  // As a number is written, so that it may come as a parameter.
  const seconds = String(Number((3600 + Math.random() * 3600).toFixed(6)));
  return {
    seconds,
    wait: `sleep ${seconds} || :`,
    async open() {
      let sleepers = sleeping(seconds);
      for (; sleepers.length === 0; sleepers = sleeping(seconds)) await delay(20);
      // Of this signal no shell says a word.
      for (const pid of sleepers) process.kill(pid, 'SIGPIPE');
      while (sleeping(seconds).some((pid) => sleepers.includes(pid))) await delay(20);
    },
  };
}

/** Also in containers, whose processes this host sees. */
function sleeping(seconds: string): readonly number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return (
          /^(?:busybox\0)?sleep\0([\d.]+)\0$/.exec(readFileSync(`/proc/${pid}/cmdline`, 'latin1'))?.[1] ===
          seconds
        );
      } catch {
        // It ended while we looked.
        return false;
      }
    })
    .map(Number);
}
