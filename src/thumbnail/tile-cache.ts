/** Values in memory by key; what was used longest ago goes first. */
export interface TileCache<Value> {
  /** The kept value; otherwise what `load` gives, which calls for the same key meanwhile share. */
  get(key: string, load: () => Promise<Value>): Promise<Value>;
}

/**
 * Creates a cache that keeps at most `maxEntries` loaded values. A load that fails is not kept: the next
 * call tries again.
 */
export function createTileCache<Value>(maxEntries: number): TileCache<Value> {
  // A Map iterates in insertion order: whatever is used is put in again, so the oldest stands first.
  const kept = new Map<string, Value>();
  const loading = new Map<string, Promise<Value>>();

  const keep = (key: string, value: Value): void => {
    kept.delete(key);
    kept.set(key, value);
    const oldest = kept.keys().next();
    if (kept.size > maxEntries && !oldest.done) kept.delete(oldest.value);
  };

  const loadOnce = (key: string, load: () => Promise<Value>): Promise<Value> => {
    const promise = load()
      .then((value) => {
        keep(key, value);
        return value;
      })
      .finally(() => loading.delete(key));
    loading.set(key, promise);
    return promise;
  };

  return {
    async get(key, load) {
      const value = kept.get(key);
      if (value === undefined) return loading.get(key) ?? loadOnce(key, load);
      keep(key, value);
      return value;
    },
  };
}
