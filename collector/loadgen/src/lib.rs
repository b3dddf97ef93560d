//! Seeded load that remembers what was acknowledged and checks it in ClickHouse.
