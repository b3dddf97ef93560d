//! The encoder of this sink: OTLP bytes to Native blocks in LZ4 frames, by `millrace_columns`.

use std::sync::Arc;

use millrace_columns::{BlockSet, Compression, Options};
use millrace_pipeline::sink::{Appended, Block, Encoder, Rejection, Slice};
use millrace_wire::Signal;

use super::tables::Tables;

pub(super) struct ColumnsEncoder {
    set: BlockSet,
    tables: Arc<Tables>,
}

impl ColumnsEncoder {
    pub(super) fn new(signal: Signal, options: &Options, tables: Arc<Tables>) -> Self {
        Self { set: BlockSet::new(signal, options), tables }
    }
}

impl Encoder for ColumnsEncoder {
    fn append(&mut self, message: &[u8]) -> Result<Appended, Rejection> {
        match self.set.append(message) {
            Ok(appended) => Ok(Appended { records: appended.rows }),
            Err(error) => Err(Rejection { reason: error.reason(), detail: error.to_string() }),
        }
    }

    fn rows(&self) -> usize {
        usize::try_from(self.set.rows()).unwrap_or(usize::MAX)
    }

    fn plain_bytes(&self) -> usize {
        self.set.bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.set.memory_bytes()
    }

    fn take(&mut self) -> Vec<Block> {
        let inserts = self.set.take(Compression::Lz4).into_iter();
        let block = |insert: millrace_columns::Insert| {
            let table = self.tables.of_kind(insert.table);
            Block {
                table: table.index,
                table_name: Arc::clone(&table.name),
                // One insert per table and day: its number among those is 0.
                slice: Slice { day: i32::from(insert.day.0), number: 0 },
                rows: insert.rows,
                records: insert.rows,
                body: insert.body.into(),
                plain_bytes: insert.plain_bytes,
            }
        };
        inserts.map(block).collect()
    }
}
