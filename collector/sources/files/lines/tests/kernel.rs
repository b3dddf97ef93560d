//! Tests records of the kernel's log: known ones, random ones, and arbitrary bytes.

use common::{NOW, attribute, decoded, text_attribute};
use millrace_lines::{FileAttributes, KernelMoment, KernelRecord, KernelWriter, LogsRequest};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert_eq, proptest};

use crate::common;

const BOOT: &str = "8a39e962-6b20-4db4-ad07-2adf3549c91b";
/// The time at which the kernel's clock was 0.
const ZERO: u64 = 1_763_900_000_000_000_000;

fn written(writer: &mut KernelWriter, record: &[u8]) -> (LogRecord, bool) {
    let mut request = LogsRequest::with_limit(1 << 20);
    let source = FileAttributes::new(&[("service.name", "shop")], &[]);
    let moment = KernelMoment { boot_id: BOOT, zero_unix_nano: ZERO, now_unix_nano: NOW };
    let record = KernelRecord::read(record);
    let is_text = writer.write(&record, &moment, &mut request.begin_records(&source));
    let [record] = &decoded(&request)[..] else { panic!("not one record") };
    assert_eq!(record.observed_time_unix_nano, NOW);
    (record.clone(), is_text)
}

fn body(record: &LogRecord) -> &str {
    match record.body.as_ref().and_then(|body| body.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// The attributes of every record with a number.
fn head(facility: &str, sequence: i64) -> Vec<KeyValue> {
    vec![
        text_attribute("syslog.facility", facility),
        attribute("kernel.sequence", Value::IntValue(sequence)),
        text_attribute("log.record.uid", &format!("{BOOT}:{sequence}")),
    ]
}

/// Escapes text as the kernel does.
fn escaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in text {
        match byte {
            b'\\' | 0..=0x1f | 0x7f.. => out.extend(format!("\\x{byte:02x}").bytes()),
            byte => out.push(*byte),
        }
    }
    out
}

/// Scenario: records as kernels have written them: with fields, with a caller, in pieces, from user
/// space, with escaped bytes. Guarantee: text, severity, time and attributes are correct.
#[test]
fn records_of_the_kernel_are_read_as_its_documentation_has_them() {
    type Expected<'a> = (&'a [u8], &'a str, (i32, &'a str), u64, Vec<KeyValue>);
    let with = |mut head: Vec<KeyValue>, more: &[(&str, &str)]| {
        head.extend(more.iter().map(|(key, value)| text_attribute(key, value)));
        head
    };
    let cases: Vec<Expected<'_>> = vec![
        (b"5,0,0,-;Linux version 6.12\n", "Linux version 6.12", (10, "notice"), 0, head("kern", 0)),
        (
            b"7,160,424069,-;pci_root PNP0A03:00: window (ignored)\n SUBSYSTEM=acpi\n \
              DEVICE=+acpi:PNP0A03:00\n",
            "pci_root PNP0A03:00: window (ignored)",
            (5, "debug"),
            424_069_000,
            with(
                head("kern", 160),
                &[("kernel.subsystem", "acpi"), ("kernel.device", "+acpi:PNP0A03:00")],
            ),
        ),
        (
            b"30,340,5690716,-,caller=T1,other=x;udevd[80]: starting\n",
            "udevd[80]: starting",
            (9, "info"),
            5_690_716_000,
            with(head("daemon", 340), &[("kernel.caller", "T1")]),
        ),
        (
            b"4,9,10,c;a piece\n",
            "a piece",
            (13, "warning"),
            10_000,
            with(head("kern", 9), &[("kernel.fragment", "c")]),
        ),
        (b"6,339,5140900;no flags\n", "no flags", (9, "info"), 5_140_900_000, head("kern", 339)),
        (
            b"203,1,2,-;\\x41\\x0a\\xc3\\xa4\\x5cx41;,",
            "A\nä\\x41;,",
            (17, "err"),
            2000,
            head("25", 1),
        ),
        (b"8,1,2,-;\\x4\\xzz\\", "\\x4\\xzz\\", (21, "emerg"), 2000, head("user", 1)),
    ];
    let mut writer = KernelWriter::default();
    for (raw, text, (number, severity), after_zero, attributes) in cases {
        let (record, is_text) = written(&mut writer, raw);
        assert_eq!((body(&record), is_text), (text, true));
        assert_eq!((record.severity_number, record.severity_text.as_str()), (number, severity));
        assert_eq!(record.time_unix_nano, ZERO + after_zero, "{text}");
        assert_eq!(record.attributes, attributes, "{text}");
    }
}

/// Scenario: lines after the text that are no fields, have a used name, or are too many. Guarantee:
/// each is in the body, unchanged.
#[test]
fn lines_that_are_no_fields_stay_in_the_body() {
    let mut writer = KernelWriter::default();
    let lines =
        [" a=b", "A=b", " =b", " A", "", " SEQUENCE=1", " CALLER=x", " FRAGMENT=c", " B C=d"];
    let raw = format!("6,1,2,-;text\n{}\n A=1\n A=2\n", lines.join("\n"));
    let (record, _) = written(&mut writer, raw.as_bytes());
    assert_eq!(body(&record), format!("text\n{}\n A=2", lines.join("\n")));
    assert_eq!(record.attributes[3..], [text_attribute("kernel.a", "1")]);
    let many: String = (0..20).map(|n| format!("\n K{n}=v")).collect();
    let (record, _) = written(&mut writer, format!("6,1,2,-;text{many}").as_bytes());
    assert_eq!(record.attributes.len(), 3 + 16);
    assert_eq!(body(&record), "text\n K16=v\n K17=v\n K18=v\n K19=v");
}

/// Scenario: heads that can't be parsed; a time beyond the range of tables. Guarantee: the former
/// are unchanged records without a number, time and severity; the latter has no time.
#[test]
fn a_record_whose_head_cannot_be_read_is_kept_as_it_stands() {
    let mut writer = KernelWriter::default();
    for raw in [
        "no head at all",
        "6,1;short",
        "a,1,2,-;x",
        "6,-1,2,-;x",
        "6,1,18446744073709551616,-;x",
        "4294967296,1,2,-;x",
        "",
    ] {
        assert_eq!(KernelRecord::read(raw.as_bytes()).sequence(), None, "{raw}");
        let (record, _) = written(&mut writer, raw.as_bytes());
        assert_eq!((body(&record), record.time_unix_nano), (raw, 0));
        assert_eq!((record.severity_number, record.attributes), (0, vec![]));
    }
    for micros in [u64::MAX, 8_000_000_000_000_000] {
        let (record, _) = written(&mut writer, format!("6,1,{micros},-;x").as_bytes());
        assert_eq!((body(&record), record.time_unix_nano), ("x", 0));
    }
}

proptest! {
    /// Scenario: any text and values, as the kernel escapes them. Guarantee: they are restored,
    /// with bytes that aren't UTF-8 replaced and reported.
    #[test]
    fn what_the_kernel_escapes_comes_out_as_it_went_in(
        priority in 0u32..192,
        sequence in any::<u32>(),
        text in vec(any::<u8>(), 0..200),
        values in vec(vec(any::<u8>(), 0..50), 0..5),
    ) {
        let mut raw = format!("{priority},{sequence},7,-;").into_bytes();
        raw.extend(escaped(&text));
        for (index, value) in values.iter().enumerate() {
            raw.extend(format!("\n F{index}=").bytes());
            raw.extend(escaped(value));
        }
        raw.push(b'\n');
        let (record, is_text) = written(&mut KernelWriter::default(), &raw);
        prop_assert_eq!(body(&record), String::from_utf8_lossy(&text));
        let all = std::iter::once(&text).chain(&values);
        prop_assert_eq!(is_text, all.into_iter().all(|it| std::str::from_utf8(it).is_ok()));
        let expected: Vec<_> = (0..values.len())
            .map(|index| {
                let value = String::from_utf8_lossy(&values[index]);
                text_attribute(&format!("kernel.f{index}"), &value)
            })
            .collect();
        prop_assert_eq!(&record.attributes[3..], &expected[..]);
    }

    /// Scenario: any bytes after any beginning of a head. Guarantee: one well-formed record, in
    /// which each line is in the body or an attribute, and none is in both or missing.
    #[test]
    fn any_bytes_are_one_record_that_has_all_of_them(
        head in "(6,1,2,-;|[0-9,;-]{0,12})",
        content in vec(
            proptest::sample::select(b"\n\n \\x4fFAB=;,\xff\xc3\xa4a".to_vec()),
            0..300,
        ),
    ) {
        let raw = [head.as_bytes(), &content].concat();
        let (record, _) = written(&mut KernelWriter::default(), &raw);
        let own = if KernelRecord::read(&raw).sequence().is_some() { 3 } else { 0 };
        let fields = record.attributes.iter().filter(|it| {
            !["kernel.caller", "kernel.fragment"].contains(&it.key.as_str())
        });
        let whole = raw.strip_suffix(b"\n").unwrap_or(&raw);
        let breaks = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
        // `\x0a` can't be made of these bytes, so all line feeds are the record's.
        prop_assert_eq!(fields.count() - own + breaks(body(&record).as_bytes()), breaks(whole));
    }
}
