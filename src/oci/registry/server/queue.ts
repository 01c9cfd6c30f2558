export type Queue = <T>(work: () => Promise<T>) => Promise<T>;

/** Work is done one after the other, in the order that it comes, also after work that failed. */
export function makeQueue(): Queue {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const mine = last.then(work);
    last = mine.catch(() => {});
    return mine;
  };
}
