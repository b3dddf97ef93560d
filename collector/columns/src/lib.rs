//! ClickHouse Native blocks: column builders, dictionaries, JSON paths, LZ4 frames.
