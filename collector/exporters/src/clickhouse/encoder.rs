//! The encoder of this sink: OTLP bytes to Native blocks in LZ4 frames, by `millrace_columns`.
//!
//! A message may also be OTLP in JSON, as other producers can write it: a request, or only the list
//! of its groups (Rotel's form). The first byte identifies it, and it becomes protobuf first. That
//! path serves compatibility, not speed.

use std::sync::Arc;

use millrace_columns::{AppendError, BlockSet, Compression, Options};
use millrace_pipeline::sink::{Appended, Block, Encoder, Refused, Rejection, Slice, Taken};
use millrace_wire::Signal;
use millrace_wire::limits::MESSAGE_BYTES;
use millrace_wire::otlp::{ROW_BYTES, json};

use super::tables::Tables;

/// What a request in JSON begins with. As protobuf it would be the start of a group, which no
/// request has, so nothing readable is taken for the other.
const REQUEST_START: u8 = b'{';
/// What a list of groups in JSON begins with: the start of a group too.
const GROUPS_START: u8 = b'[';
/// Memory kept for the next message in JSON: 1 MiB, a usual message. A longer one's is given back
/// at once, so that what is kept stays inside of what its batch reserves.
const KEPT_JSON_BYTES: usize = 1 << 20;

pub(super) struct ColumnsEncoder {
    set: BlockSet,
    tables: Arc<Tables>,
    /// The protobuf form of a message in JSON.
    protobuf: Vec<u8>,
    unsealed: Unsealed,
}

/// What was appended since the builders were last written out.
#[derive(Clone, Copy, Default)]
struct Unsealed {
    message_bytes: usize,
    /// What the batch had until then.
    before_rows: usize,
    before_written_bytes: usize,
}

impl Unsealed {
    fn after(set: &BlockSet) -> Self {
        let before_rows = usize::try_from(set.rows()).unwrap_or(usize::MAX);
        let before_written_bytes = set.written_bytes();
        Self { message_bytes: 0, before_rows, before_written_bytes }
    }
}

fn rejection(error: &AppendError) -> Rejection {
    Rejection { reason: error.reason(), detail: error.to_string() }
}

impl ColumnsEncoder {
    pub(super) fn new(signal: Signal, options: &Options, tables: Arc<Tables>) -> Self {
        Self {
            set: BlockSet::new(signal, options),
            tables,
            protobuf: Vec::new(),
            unsealed: Unsealed::default(),
        }
    }

    fn append_protobuf(&mut self, message: &[u8]) -> Result<Appended, Rejection> {
        let appended = self.set.append(message).map_err(|error| rejection(&error))?;
        self.unsealed.message_bytes += message.len();
        Ok(Appended { records: appended.rows })
    }

    fn append_protobuf_groups(&mut self, message: &[u8]) -> Result<Taken, Rejection> {
        let taken = self.set.append_groups(message).map_err(|error| rejection(&error))?;
        self.unsealed.message_bytes += message.len();
        let refused = taken.refused.map(|(error, payload)| Refused {
            rejection: rejection(&error),
            payload: Some(payload),
        });
        Ok(Taken { records: taken.appended.rows, refused })
    }

    /// Appends a message in JSON through its protobuf form.
    #[cold]
    fn append_json<T>(
        &mut self,
        message: &[u8],
        append: impl FnOnce(&mut Self, &[u8]) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let mut protobuf = std::mem::take(&mut self.protobuf);
        let signal = self.set.signal();
        let read = if message.first() == Some(&GROUPS_START) {
            json::transcode_groups(signal, message, MESSAGE_BYTES, &mut protobuf)
        } else {
            json::transcode(signal, message, MESSAGE_BYTES, &mut protobuf)
        };
        let appended = match read {
            Ok(()) => append(self, &protobuf),
            Err(error) => Err(Rejection { reason: "json", detail: error.to_string() }),
        };
        protobuf.clear();
        protobuf.shrink_to(KEPT_JSON_BYTES);
        self.protobuf = protobuf;
        appended
    }
}

impl Encoder for ColumnsEncoder {
    fn append(&mut self, message: &[u8]) -> Result<Appended, Rejection> {
        match message.first() {
            Some(&(REQUEST_START | GROUPS_START)) => {
                self.append_json(message, Self::append_protobuf)
            }
            _ => self.append_protobuf(message),
        }
    }

    fn append_groups(&mut self, message: &[u8]) -> Taken {
        let taken = match message.first() {
            Some(&(REQUEST_START | GROUPS_START)) => {
                self.append_json(message, Self::append_protobuf_groups)
            }
            _ => self.append_protobuf_groups(message),
        };
        taken.unwrap_or_else(Taken::refused)
    }

    fn rows(&self) -> usize {
        usize::try_from(self.set.rows()).unwrap_or(usize::MAX)
    }

    fn plain_bytes(&self) -> usize {
        self.set.bytes()
    }

    fn seal_over(&mut self, open_bytes: usize) {
        if self.set.open_bytes() > open_bytes {
            self.set.seal(Compression::Lz4);
            self.unsealed = Unsealed::after(&self.set);
        }
    }

    fn held_bytes(&self) -> usize {
        self.set.open_bytes() + self.set.sealed_bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.set.memory_bytes() + self.protobuf.capacity()
    }

    /// What is compressed is there. Of the rest a third of the columns, and all that rows repeat of
    /// what they share: where that is long, LZ4 doesn't see that it repeats.
    fn body_bytes(&self) -> usize {
        let Unsealed { message_bytes, before_rows, before_written_bytes } = self.unsealed;
        let own_bytes = message_bytes + (self.rows() - before_rows) * ROW_BYTES as usize;
        let written_bytes = self.set.written_bytes() - before_written_bytes;
        let builders = self.memory_bytes() - self.set.sealed_bytes();
        (builders / 2).max(written_bytes.saturating_sub(own_bytes))
    }

    fn take(&mut self) -> Vec<Block> {
        self.unsealed = Unsealed::default();
        let inserts = self.set.take(Compression::Lz4).into_iter();
        let block = |insert: millrace_columns::Insert| {
            let table = self.tables.of_kind(insert.table);
            Block {
                table: table.index,
                table_name: Arc::clone(&table.name),
                slice: Slice { day: i32::from(insert.day.0), number: insert.number },
                rows: insert.rows,
                records: insert.rows,
                body: insert.body.into(),
                plain_bytes: insert.plain_bytes,
            }
        };
        inserts.map(block).collect()
    }
}
