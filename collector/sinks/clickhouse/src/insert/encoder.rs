//! The encoder of this sink: OTLP bytes to Native blocks in LZ4 frames, by `millrace_columns`.
//!
//! A message may also be OTLP in JSON, as other producers can write it: a request, or only the list
//! of its groups (Rotel's form). The first byte identifies JSON, which is first converted to
//! protobuf. That path serves compatibility, not speed.

use std::sync::Arc;

use millrace_columns::{AppendError, BlockSet, BodyCompression, Options, TypedColumn};
use millrace_observe::otlp::is_own_telemetry;
use millrace_pipeline::sink::{
    AcceptedRecords, AppendedMessage, Block, BlockSlice, Encoder, RejectedRecords, Rejection,
};
use millrace_wire::Signal;
use millrace_wire::limits::MESSAGE_BYTES;
use millrace_wire::otlp::{ROW_BYTES, TimeRange, json};
use tokio::sync::watch;

use crate::tables::SinkTables;

/// The written size at which a block of an insert ends: 4 MiB, 24,000 lean spans. Complete blocks
/// are compressed, so that an insert may have more rows than fit into memory uncompressed.
///
/// A server recognises a repeated insert by its token and the number of its blocks (tried with
/// 26.9), so blocks depend only on the messages: not on memory, settings, or other reads. If this
/// number changes, inserts that a killed gateway of the previous release had sent are stored twice.
const BLOCK_BYTES: usize = 4 << 20;
/// The first byte of a request in JSON. As protobuf it would start a group, which no request has,
/// so neither format is mistaken for the other.
const REQUEST_START: u8 = b'{';
/// The first byte of a list of groups in JSON: as protobuf it starts a group too.
const GROUPS_START: u8 = b'[';
/// The memory retained for the next message in JSON: 1 MiB, a usual message. A longer one's is
/// freed at once, so that the batch's reservation covers what is retained.
const RETAINED_JSON_BYTES: usize = 1 << 20;

pub(crate) struct ColumnsEncoder {
    set: BlockSet,
    tables: Arc<SinkTables>,
    /// The known types of live columns that declare their own.
    typed: watch::Receiver<Vec<TypedColumn>>,
    /// The protobuf form of a message in JSON.
    protobuf: Vec<u8>,
    unsealed: Unsealed,
    /// Whether the batch has a message that isn't from our own programs.
    has_others: bool,
}

/// What was appended since the builders were last written out.
#[derive(Clone, Copy, Default)]
struct Unsealed {
    message_bytes: usize,
    /// The batch's size before that.
    before_rows: usize,
    before_written_bytes: usize,
}

impl Unsealed {
    fn after_seal(set: &BlockSet) -> Self {
        let before_rows = usize::try_from(set.row_count()).unwrap_or(usize::MAX);
        let before_written_bytes = set.written_bytes();
        Self { message_bytes: 0, before_rows, before_written_bytes }
    }
}

fn to_rejection(error: &AppendError) -> Rejection {
    Rejection { reason: error.reason(), detail: error.to_string() }
}

impl ColumnsEncoder {
    pub(crate) fn new(
        signal: Signal,
        options: &Options,
        tables: Arc<SinkTables>,
        typed: watch::Receiver<Vec<TypedColumn>>,
    ) -> Self {
        let mut set = BlockSet::new(signal, options);
        set.set_typed(&typed.borrow());
        let unsealed = Unsealed::default();
        Self { set, tables, typed, protobuf: Vec::new(), unsealed, has_others: false }
    }

    fn append_protobuf(&mut self, message: &[u8]) -> Result<AppendedMessage, Rejection> {
        let appended = self.set.append(message).map_err(|error| to_rejection(&error))?;
        self.record_message(message);
        Ok(AppendedMessage { records: appended.rows })
    }

    fn append_protobuf_groups(
        &mut self,
        message: &[u8],
        times: &TimeRange,
    ) -> Result<AcceptedRecords, Rejection> {
        let accepted =
            self.set.append_groups(message, times).map_err(|error| to_rejection(&error))?;
        self.record_message(message);
        let refused = accepted.refused.map(|(error, payload)| RejectedRecords {
            rejection: to_rejection(&error),
            payload: Some(payload),
        });
        Ok(AcceptedRecords { records: accepted.appended.rows, refused })
    }

    /// Counts a message that was appended, and writes out a complete block.
    fn record_message(&mut self, message: &[u8]) {
        self.unsealed.message_bytes += message.len();
        self.has_others = self.has_others || !is_own_telemetry(message);
        if self.set.written_bytes() - self.unsealed.before_written_bytes >= BLOCK_BYTES {
            self.follow_live();
            self.set.seal_blocks(BodyCompression::Lz4);
            self.unsealed = Unsealed::after_seal(&self.set);
        }
    }

    /// Applies the live tables' types to the blocks from here on.
    fn follow_live(&mut self) {
        if self.typed.has_changed().unwrap_or(false) {
            self.set.set_typed(&self.typed.borrow_and_update());
        }
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
            json::transcode_request(signal, message, MESSAGE_BYTES, &mut protobuf)
        };
        let appended = match read {
            Ok(()) => append(self, &protobuf),
            Err(error) => Err(Rejection { reason: "json", detail: error.to_string() }),
        };
        protobuf.clear();
        protobuf.shrink_to(RETAINED_JSON_BYTES);
        self.protobuf = protobuf;
        appended
    }
}

impl Encoder for ColumnsEncoder {
    fn append(&mut self, message: &[u8]) -> Result<AppendedMessage, Rejection> {
        match message.first() {
            Some(&(REQUEST_START | GROUPS_START)) => {
                self.append_json(message, Self::append_protobuf)
            }
            _ => self.append_protobuf(message),
        }
    }

    fn append_groups(&mut self, message: &[u8], times: &TimeRange) -> AcceptedRecords {
        let accepted = match message.first() {
            Some(&(REQUEST_START | GROUPS_START)) => self.append_json(message, |this, protobuf| {
                this.append_protobuf_groups(protobuf, times)
            }),
            _ => self.append_protobuf_groups(message, times),
        };
        accepted.unwrap_or_else(AcceptedRecords::all_rejected)
    }

    fn row_count(&self) -> usize {
        usize::try_from(self.set.row_count()).unwrap_or(usize::MAX)
    }

    fn plain_bytes(&self) -> usize {
        self.set.batch_bytes()
    }

    fn held_bytes(&self) -> usize {
        self.set.open_bytes() + self.set.sealed_bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.set.memory_bytes() + self.protobuf.capacity()
    }

    /// Estimates the bodies still to be compressed: a third of the columns, and all that rows
    /// repeat of shared values: where that is long, LZ4 doesn't detect the repetition. Complete
    /// blocks are already compressed.
    fn body_bytes(&self) -> usize {
        let Unsealed { message_bytes, before_rows, before_written_bytes } = self.unsealed;
        let own_bytes = message_bytes + (self.row_count() - before_rows) * ROW_BYTES as usize;
        let written_bytes = self.set.written_bytes() - before_written_bytes;
        let builders = self.memory_bytes() - self.set.sealed_bytes();
        (builders / 2).max(written_bytes.saturating_sub(own_bytes))
    }

    fn take_blocks(&mut self) -> Vec<Block> {
        self.unsealed = Unsealed::default();
        let is_own = !std::mem::take(&mut self.has_others);
        self.follow_live();
        let inserts = self.set.take_inserts(BodyCompression::Lz4).into_iter();
        let block = |insert: millrace_columns::Insert| {
            let table = self.tables.of_kind(insert.table);
            Block {
                table: table.index,
                table_name: Arc::clone(&table.name),
                slice: BlockSlice { day: i32::from(insert.day.0), number: insert.number },
                rows: insert.rows,
                records: insert.rows,
                body: insert.body.into(),
                plain_bytes: insert.plain_bytes,
                is_self_telemetry: is_own,
            }
        };
        inserts.map(block).collect()
    }
}

#[cfg(test)]
mod tests {
    use millrace_schema::AttributeStorage;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
    use prost::Message;

    use super::*;

    fn encoder() -> ColumnsEncoder {
        let attributes = AttributeStorage::Map;
        let name = "otel".parse().unwrap();
        let tables = Arc::new(SinkTables::new(&name, &name, attributes));
        let options = Options { attributes, ..Options::default() };
        ColumnsEncoder::new(Signal::Traces, &options, tables, watch::channel(Vec::new()).1)
    }

    /// Returns a message of spans of about 150 bytes.
    fn message(spans: u64) -> Vec<u8> {
        let span = |n: u64| Span {
            name: format!("{n:0>100}"),
            span_id: n.to_be_bytes().to_vec(),
            start_time_unix_nano: 1_790_000_000_000_000_000 + n,
            ..Span::default()
        };
        let scope_spans =
            vec![ScopeSpans { spans: (0..spans).map(span).collect(), ..ScopeSpans::default() }];
        let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
        TracesData { resource_spans }.encode_to_vec()
    }

    fn bodies(encoder: &mut ColumnsEncoder) -> Vec<(u64, Vec<u8>)> {
        encoder.take_blocks().into_iter().map(|block| (block.rows, block.body.to_vec())).collect()
    }

    /// Scenario: a batch of several blocks by a new encoder, and by one that had another batch and
    /// a message that it refused. Guarantee: one insert of the same bytes, so of the same blocks;
    /// complete blocks were compressed before the end.
    #[test]
    fn blocks_follow_from_the_messages_alone() {
        let (mut new, mut used) = (encoder(), encoder());
        for spans in [70_000, 11] {
            used.append(&message(spans)).unwrap();
        }
        used.append(b"\x0a\xff").unwrap_err();
        assert_eq!(bodies(&mut used).len(), 1);
        for encoder in [&mut new, &mut used] {
            for _ in 0..12 {
                encoder.append(&message(9_000)).unwrap();
            }
            assert!(encoder.plain_bytes() > 3 * BLOCK_BYTES, "{}", encoder.plain_bytes());
            assert!(encoder.held_bytes() < 2 * BLOCK_BYTES, "{}", encoder.held_bytes());
            assert!(encoder.body_bytes() < encoder.memory_bytes(), "{}", encoder.body_bytes());
        }
        let bodies_of_new = bodies(&mut new);
        assert_eq!(bodies_of_new[0].0, 108_000);
        assert!(bodies_of_new == bodies(&mut used), "other bytes");
    }

    /// Scenario: messages of a thousand spans. Guarantee: blocks end where they did in the previous
    /// release. If this number has to change, inserts repeated over an upgrade are stored twice:
    /// state that in the changelog.
    #[test]
    fn blocks_end_where_they_did_in_the_release_before() {
        let mut encoder = encoder();
        let mut ends = Vec::new();
        for number in 1..=60 {
            encoder.append(&message(1_000)).unwrap();
            if encoder.set.open_bytes() == 0 {
                ends.push(number);
            }
        }
        assert_eq!(ends, [28, 56]);
    }
}
