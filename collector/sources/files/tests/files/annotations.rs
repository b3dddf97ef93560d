//! Tests files whose pods' annotations choose how they are read.

use std::collections::BTreeMap;
use std::fs;

use millrace_config::{ContainersReceiver, Parse, ParseFormat, StackTraces, Timestamp};
use millrace_pipeline::pods::{LogReading, PodInfo, PodMultiline, Reading, TextParser};

use crate::files::labels::{a_pod, write};
use crate::files::rig::Rig;
use millrace_fake_publisher::ReceivedRecord;

fn by(parser: Option<TextParser>, multiline: Option<PodMultiline>) -> Reading {
    Reading { logs: None, parser, multiline }
}

fn all(reading: Reading) -> PodInfo {
    PodInfo { reading, ..PodInfo::default() }
}

/// Waits for exactly this many records.
fn until(rig: &Rig, number: usize) -> Vec<ReceivedRecord> {
    rig.until("all records", || rig.texts().len() >= number);
    let records = rig.publisher.records.lock().unwrap();
    assert_eq!(records.len(), number);
    records.clone()
}

fn names(record: &ReceivedRecord) -> Vec<&str> {
    record.attributes.iter().map(|(name, _)| name.as_str()).collect()
}

/// Scenario: a pod chooses JSON, then logfmt, then nothing, under settings without a parser;
/// another receiver's settings are JSON with a timestamp field. Guarantee: each line is parsed by
/// the annotation that applies then; fields have the roles of the settings.
#[test]
fn a_pod_says_its_parser() {
    let (mut rig, told) = a_pod(|_| {});
    told.tell_pod("1", "a", all(by(Some(TextParser::Json), None)));
    write(&rig, r#"{"msg": "one", "level": "warn", "n": 1}"#);
    rig.start();
    let record = &until(&rig, 1)[0];
    assert_eq!((record.text.as_str(), record.severity.0), ("one", 13));
    assert_eq!(names(record), ["n", "log.iostream"]);
    told.tell_pod("1", "a", all(by(Some(TextParser::Logfmt), None)));
    write(&rig, "msg=two level=info n=2");
    let record = &until(&rig, 2)[1];
    assert_eq!((record.text.as_str(), record.severity.0), ("two", 9));
    told.tell_pod("1", "a", all(Reading::default()));
    write(&rig, "msg=three");
    assert_eq!(until(&rig, 3)[2].text, "msg=three");
    rig.stop();

    let timestamp = Timestamp { fields: vec!["at".into()], ..Timestamp::default() };
    let parse = Parse {
        format: ParseFormat::Json,
        body: vec!["text".into()],
        timestamp: Some(timestamp),
        ..Parse::default()
    };
    let (mut rig, told) = a_pod(|receiver| receiver.parse = parse);
    told.tell_pod("1", "a", all(by(Some(TextParser::Logfmt), None)));
    write(&rig, "text=one at=2026-01-02T00:00:00Z");
    rig.start();
    let record = &until(&rig, 1)[0];
    assert_eq!((record.text.as_str(), names(record)), ("one", vec!["log.iostream"]));
    told.tell_pod("1", "a", all(by(Some(TextParser::None), None)));
    write(&rig, r#"{"text": "two"}"#);
    assert_eq!(until(&rig, 2)[1].text, r#"{"text": "two"}"#);
    rig.stop();
}

/// Scenario: the settings join Java traces, and a pod chooses nothing, then single lines, then only
/// a parser. Guarantee: the settings apply if the pod chooses nothing, and only then.
#[test]
fn settings_say_which_lines_are_one_record_where_pods_are_silent() {
    let java =
        millrace_config::Multiline { stack_traces: Some(StackTraces::Java), ..Default::default() };
    let (mut rig, told) = a_pod(|receiver| receiver.multiline = Some(java));
    let fails = |rig: &Rig| {
        for line in ["failed", "java.lang.Error: x", "\tat a.B.c(D.java:1)"] {
            write(rig, line);
        }
    };
    told.tell_pod("1", "a", all(Reading::default()));
    fails(&rig);
    rig.start();
    let whole = "failed\njava.lang.Error: x\n\tat a.B.c(D.java:1)";
    assert_eq!(until(&rig, 1)[0].text, whole);
    told.tell_pod("1", "a", all(by(None, Some(PodMultiline::None))));
    fails(&rig);
    assert_eq!(until(&rig, 4)[1].text, "failed");
    told.tell_pod("1", "a", all(by(Some(TextParser::Json), None)));
    fails(&rig);
    assert_eq!(until(&rig, 5)[4].text, whole);
    rig.stop();
}

/// Scenario: one of a pod's two containers has separate annotations: a parser, and logs that are
/// off for the others. Guarantee: they apply only to that container.
#[test]
fn a_pod_says_it_of_one_container() {
    let (mut rig, told) = a_pod(|_| {});
    let own = Reading { logs: Some(LogReading::On), ..by(Some(TextParser::Json), None) };
    let reading = Reading { logs: Some(LogReading::Off), ..Reading::default() };
    let containers = BTreeMap::from([("app".to_owned(), own)]);
    told.tell_pod("1", "a", PodInfo { reading, containers, ..PodInfo::default() });
    fs::create_dir_all(rig.path("shop_cart_1/proxy")).unwrap();
    rig.append("shop_cart_1/proxy/0.log", "2026-11-25T04:00:00.1Z stdout F off\n");
    write(&rig, r#"{"msg": "on"}"#);
    rig.start();
    assert_eq!(until(&rig, 1)[0].text, "on");
    rig.until_metric("millrace_files_behind_bytes", |bytes| bytes == 0);
    rig.until_metric("millrace_files_records_total", |records| records == 1);
    rig.stop();
}

/// Scenario: a pod chooses traces of Java, or a pattern that begins its records. Guarantee: a trace
/// is one record, and so are the lines from a beginning on; lines around it are separate records.
#[test]
fn a_pod_says_which_lines_are_one_record() {
    let trace = ["java.lang.Error: bad", "\tat a.B.c(B.java:5)", "Caused by: x.YException: z"];
    for (multiline, lines, expected) in [
        (PodMultiline::Traces(StackTraces::Java), trace, vec![trace.join("\n")]),
        (
            PodMultiline::Start("^E".into()),
            ["E 1", "more", "E 2"],
            vec!["E 1\nmore".into(), "E 2".into()],
        ),
    ] {
        let (mut rig, told) = a_pod(|_| {});
        told.tell_pod("1", "a", all(by(None, Some(multiline))));
        lines.iter().for_each(|line| write(&rig, line));
        rig.start();
        rig.until_exactly(expected);
        rig.stop();
    }
}

/// Scenario: a multiline record is open when its pod chooses single lines and a parser; everything
/// is read, and the collector restarts. Guarantee: the open record comes before the next line, each
/// line is sent once, and positions are right.
#[test]
fn a_change_takes_effect_between_records() {
    let (mut rig, told) = a_pod(|_| {});
    told.tell_pod("1", "a", all(by(None, Some(PodMultiline::Traces(StackTraces::Java)))));
    ["E 1", " at x"].iter().for_each(|line| write(&rig, line));
    rig.start();
    // The lines are read, and the record is open.
    rig.until_metric("millrace_files_read_bytes_total", |bytes| bytes > 0);
    told.tell_pod("1", "a", all(by(Some(TextParser::Json), Some(PodMultiline::None))));
    [r#"{"msg": "two"}"#, " three"].iter().for_each(|line| write(&rig, line));
    let texts: Vec<String> = until(&rig, 3).iter().map(|record| record.text.clone()).collect();
    assert_eq!(texts, ["E 1\n at x", "two", " three"]);
    rig.until_metric("millrace_files_behind_bytes", |bytes| bytes == 0);
    rig.stop();
    rig.start();
    write(&rig, "four");
    assert_eq!(until(&rig, 4)[3].text, "four");
    rig.stop();
}

/// Scenario: a pod is unknown for longer than a record waits; then its annotations are known.
/// Guarantee: the first line is read by the settings, the following ones by the annotations.
#[test]
fn what_is_known_late_holds_from_the_next_line_on() {
    let (mut rig, told) = a_pod(|_| {});
    write(&rig, r#"{"msg": "one"}"#);
    rig.start();
    assert_eq!(until(&rig, 1)[0].text, r#"{"msg": "one"}"#);
    told.tell_pod("1", "a", all(by(Some(TextParser::Json), None)));
    write(&rig, r#"{"msg": "two"}"#);
    assert_eq!(until(&rig, 2)[1].text, "two");
    rig.stop();
}

/// Scenario: lines name their fields like the collector's attributes, with each parser that a pod
/// can choose and with traces. Guarantee: the resource has only the attributes of path and API
/// server; the record's own attributes have the names with a prefix.
#[test]
fn no_line_can_forge_an_attribute_with_a_parser_that_its_pod_chose() {
    let forged = ["k8s.pod.name", "k8s.namespace.name", "k8s.pod.label.app", "k8s.node.name"];
    let json = forged.map(|name| format!(r#""{name}": "forged""#)).join(", ");
    let logfmt = forged.map(|name| format!("{name}=forged")).join(" ");
    for (parser, line) in [
        (TextParser::Json, format!("{{{json}}}")),
        (TextParser::Json, r#"{"k8s": {"pod": {"name": "forged"}, "pod.uid": "forged"}}"#.into()),
        (TextParser::Logfmt, logfmt),
    ] {
        for multiline in [None, Some(PodMultiline::Traces(StackTraces::Go))] {
            let (mut rig, told) = a_pod(|_: &mut ContainersReceiver| {});
            told.tell_pod("1", "a", all(by(Some(parser), multiline)));
            write(&rig, &line);
            rig.start();
            let record = &until(&rig, 1)[0];
            let mut resource = record.resource.clone();
            resource.sort();
            let expected = [
                ("k8s.container.name", "app"),
                ("k8s.container.restart_count", "0"),
                ("k8s.namespace.name", "shop"),
                ("k8s.pod.label.app", "a"),
                ("k8s.pod.name", "cart"),
                ("k8s.pod.uid", "1"),
            ];
            assert_eq!(resource, expected.map(|(name, value)| (name.into(), value.into())));
            let attributes = names(record);
            assert!(attributes.len() > 1, "{attributes:?}");
            let is_own = |name: &&str| name.starts_with("line.k8s") || *name == "log.iostream";
            assert!(attributes.iter().all(is_own), "{attributes:?}");
            rig.stop();
        }
    }
}
