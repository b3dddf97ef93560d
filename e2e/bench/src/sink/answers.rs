//! What the sink answers: whole HTTP answers, and the few Native blocks that clickhouse-go asks for
//! before its first insert.
//!
//! Pure. Tables are described from the schema crate: JSON attributes for traces and logs, Map for
//! metrics, as the OpenTelemetry Collector's exporter writes them.

use millrace_columns::frame_checksum;
use millrace_schema::{AttributeStorage, Table, TableKind, build_table};

/// The revision the sink claims: old enough that blocks carry no custom-serialization byte, which
/// begins at 54454.
const REVISION: u32 = 50_000;
const METHOD_NONE: u8 = 0x02;
/// Method (1) and sizes (4 + 4); the compressed size counts them.
const FRAME_HEAD_BYTES: u32 = 9;
/// Columns of an answer to `DESCRIBE TABLE`.
const DESCRIBED: [&str; 7] = [
    "name",
    "type",
    "default_type",
    "default_expression",
    "comment",
    "codec_expression",
    "ttl_expression",
];

/// The answer to `/ping`.
pub(super) fn pong() -> Vec<u8> {
    http(200, "", b"Ok.\n")
}

/// The answer to an insert.
pub(super) fn inserted(rows: u64) -> Vec<u8> {
    let summary = format!(
        "X-ClickHouse-Summary: {{\"read_rows\":\"{rows}\",\"read_bytes\":\"0\",\
         \"written_rows\":\"{rows}\",\"written_bytes\":\"0\",\"elapsed_ns\":\"0\"}}\r\n"
    );
    http(200, &summary, b"")
}

/// The answer to what it can't answer: code 48 is NOT_IMPLEMENTED.
pub(super) fn refusal(what: &str) -> Vec<u8> {
    let text = format!("Code: 48. DB::Exception: the null sink does not know: {what}\n");
    http(500, "X-ClickHouse-Exception-Code: 48\r\n", text.as_bytes())
}

/// The answer to a question it knows.
pub(super) fn to_question(text: &str, in_frames: bool) -> Option<Vec<u8>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let block = match words.as_slice() {
        ["SELECT", "displayName(),", "version(),", "revision(),", "timezone()"] => hello(),
        ["SELECT", "1"] => {
            let mut block = Block::new(1, 1);
            block.column("1", "UInt8", None);
            block.bytes.push(1);
            block.bytes
        }
        ["DESCRIBE" | "DESC", "TABLE", name] => describe(name)?,
        _ => return None,
    };
    let body = if in_frames { framed(&block) } else { block };
    Some(http(200, "X-ClickHouse-Format: Native\r\n", &body))
}

fn http(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let reason = if status == 200 { "OK" } else { "Internal Server Error" };
    let mut answer = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: {}\r\n{headers}\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(body);
    answer
}

/// Who the server is. The client reads this one block at its own revision, with the byte for custom
/// serialization.
fn hello() -> Vec<u8> {
    let mut block = Block::new(4, 1);
    for (name, value) in [("displayName()", "null-sink"), ("version()", "26.3.1.1")] {
        block.column(name, "String", Some(0));
        block.text(value);
    }
    block.column("revision()", "UInt32", Some(0));
    block.bytes.extend_from_slice(&REVISION.to_le_bytes());
    block.column("timezone()", "String", Some(0));
    block.text("UTC");
    block.bytes
}

fn describe(name: &str) -> Option<Vec<u8>> {
    let plain: String = name.chars().filter(|c| !matches!(c, '"' | '`')).collect();
    let suffix = plain.rsplit('.').next()?.strip_prefix("otel_")?;
    let kind = TableKind::ALL.into_iter().find(|kind| kind.suffix() == suffix)?;
    let attributes = match kind {
        TableKind::Traces | TableKind::Logs => AttributeStorage::Json,
        _ => AttributeStorage::Map,
    };
    let Table { columns, .. } = build_table(kind, attributes);
    let mut block = Block::new(DESCRIBED.len() as u64, columns.len() as u64);
    for (place, name) in DESCRIBED.into_iter().enumerate() {
        block.column(name, "String", None);
        for column in &columns {
            match place {
                0 => block.text(column.name),
                1 => block.text(&column.ty.to_string()),
                _ => block.text(""),
            }
        }
    }
    Some(block.bytes)
}

/// A Native block under way, as sent to a client that gave its revision: block information first.
struct Block {
    bytes: Vec<u8>,
}

impl Block {
    fn new(columns: u64, rows: u64) -> Self {
        // Field 1: is_overflows, no. Field 2: bucket_num, -1. Then the end.
        let mut block = Self { bytes: vec![1, 0, 2, 0xFF, 0xFF, 0xFF, 0xFF, 0] };
        block.varint(columns);
        block.varint(rows);
        block
    }

    fn column(&mut self, name: &str, ty: &str, custom: Option<u8>) {
        self.text(name);
        self.text(ty);
        self.bytes.extend(custom);
    }

    fn text(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// One frame of ClickHouse's, uncompressed.
fn framed(plain: &[u8]) -> Vec<u8> {
    // Answers are a few KiB.
    let size = u32::try_from(plain.len()).unwrap_or(u32::MAX);
    let mut frame = vec![METHOD_NONE];
    frame.extend_from_slice(&(size.saturating_add(FRAME_HEAD_BYTES)).to_le_bytes());
    frame.extend_from_slice(&size.to_le_bytes());
    frame.extend_from_slice(plain);
    let mut bytes = frame_checksum(&frame).to_vec();
    bytes.append(&mut frame);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{framed, to_question};

    /// Scenario: the three questions of clickhouse-go. Guarantee: each is answered, the tables'
    /// columns by name and type.
    #[test]
    fn the_questions_of_the_peers_client_are_answered() {
        let text = |question: &str| {
            let answer = to_question(question, false).unwrap();
            String::from_utf8_lossy(&answer).into_owned()
        };
        assert!(text("SELECT displayName(), version(), revision(), timezone()").contains("UTC"));
        assert!(text("SELECT 1").contains("UInt8"));
        let traces = text("DESC TABLE \"otel\".\"otel_traces\"");
        assert!(traces.contains("SpanAttributes") && traces.contains("JSON"), "{traces}");
        let gauge = text("DESCRIBE TABLE `otel`.`otel_metrics_gauge`");
        assert!(gauge.contains("Map(LowCardinality(String), String)"), "{gauge}");
        assert!(to_question("DESC TABLE otel.other", false).is_none());
    }

    /// Scenario: a frame. Guarantee: its sizes say head and content.
    #[test]
    fn a_frame_says_its_sizes() {
        let frame = framed(b"abc");
        assert_eq!(frame.len(), 16 + 9 + 3);
        assert_eq!(frame[16..25], [2, 12, 0, 0, 0, 3, 0, 0, 0]);
    }
}
