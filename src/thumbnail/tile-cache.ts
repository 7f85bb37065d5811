/** Tiles in memory by key; the least recently used one is evicted first. */
export interface TileCache {
  /** The kept tile; otherwise what `load` gives, which concurrent calls for the same key share. */
  get(key: string, load: () => Promise<Buffer>): Promise<Buffer>;
}

/**
 * Creates a cache of loaded tiles that keeps at most `maxBytes` of them. A load that fails is not kept: the
 * next call tries again.
 */
export function createTileCache(maxBytes: number): TileCache {
  // A Map iterates in insertion order: whatever is used is put in again, so the oldest is first.
  const kept = new Map<string, Buffer>();
  const loading = new Map<string, Promise<Buffer>>();
  let keptBytes = 0;

  const drop = (key: string): void => {
    keptBytes -= kept.get(key)?.length ?? 0;
    kept.delete(key);
  };

  const keep = (key: string, tile: Buffer): void => {
    drop(key);
    kept.set(key, tile);
    keptBytes += tile.length;
    for (const oldest of kept.keys()) {
      if (keptBytes <= maxBytes) return;
      drop(oldest);
    }
  };

  const loadOnce = (key: string, load: () => Promise<Buffer>): Promise<Buffer> => {
    const promise = load()
      .then((tile) => {
        keep(key, tile);
        return tile;
      })
      .finally(() => loading.delete(key));
    loading.set(key, promise);
    return promise;
  };

  return {
    async get(key, load) {
      const tile = kept.get(key);
      if (tile === undefined) return loading.get(key) ?? loadOnce(key, load);
      keep(key, tile);
      return tile;
    },
  };
}
