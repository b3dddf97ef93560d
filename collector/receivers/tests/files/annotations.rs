//! How files are read whose pods say it by annotation.

use std::collections::BTreeMap;
use std::fs;

use millrace_config::{ContainersReceiver, Parse, ParseFormat, Timestamp, Traces};
use millrace_pipeline::pods::{Multiline, Parser, Pod, Reading, Wanted};

use crate::labels::{a_pod, write};
use crate::publisher::Record;
use crate::rig::Rig;

fn by(parser: Option<Parser>, multiline: Option<Multiline>) -> Reading {
    Reading { wanted: None, parser, multiline }
}

fn all(reading: Reading) -> Pod {
    Pod { reading, ..Pod::default() }
}

/// Waits for this many records.
fn until(rig: &Rig, number: usize) -> Vec<Record> {
    rig.until("all records", || rig.texts().len() >= number);
    let records = rig.publisher.records.lock().unwrap();
    assert_eq!(records.len(), number);
    records.clone()
}

fn names(record: &Record) -> Vec<&str> {
    record.attributes.iter().map(|(name, _)| name.as_str()).collect()
}

/// Scenario: a pod asks for JSON, then for logfmt, then for nothing, under settings that parse
/// nothing; and its neighbour's settings are JSON with a time of their own. Guarantee: each line is
/// read as the annotation says that holds then; fields have the places that the settings give them.
#[test]
fn a_pod_says_its_parser() {
    let (mut rig, told) = a_pod(|_| {});
    told.tell_pod("1", "a", all(by(Some(Parser::Json), None)));
    write(&rig, r#"{"msg": "one", "level": "warn", "n": 1}"#);
    rig.start();
    let record = &until(&rig, 1)[0];
    assert_eq!((record.text.as_str(), record.severity.0), ("one", 13));
    assert_eq!(names(record), ["n", "log.iostream"]);
    told.tell_pod("1", "a", all(by(Some(Parser::Logfmt), None)));
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
    told.tell_pod("1", "a", all(by(Some(Parser::Logfmt), None)));
    write(&rig, "text=one at=2026-01-02T00:00:00Z");
    rig.start();
    let record = &until(&rig, 1)[0];
    assert_eq!((record.text.as_str(), names(record)), ("one", vec!["log.iostream"]));
    told.tell_pod("1", "a", all(by(Some(Parser::None), None)));
    write(&rig, r#"{"text": "two"}"#);
    assert_eq!(until(&rig, 2)[1].text, r#"{"text": "two"}"#);
    rig.stop();
}

/// Scenario: the settings say that a Java trace is one record, and a pod says nothing, then that each
/// line is one, then something of its parser alone. Guarantee: the settings hold where the pod is
/// silent, and only there.
#[test]
fn settings_say_which_lines_are_one_record_where_pods_are_silent() {
    let java = millrace_config::Multiline { traces: Some(Traces::Java), ..Default::default() };
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
    told.tell_pod("1", "a", all(by(None, Some(Multiline::None))));
    fails(&rig);
    assert_eq!(until(&rig, 4)[1].text, "failed");
    told.tell_pod("1", "a", all(by(Some(Parser::Json), None)));
    fails(&rig);
    assert_eq!(until(&rig, 5)[4].text, whole);
    rig.stop();
}

/// Scenario: one of a pod's two containers has annotations of its own: a parser, and logs that are
/// off for the others. Guarantee: they hold for it alone.
#[test]
fn a_pod_says_it_of_one_container() {
    let (mut rig, told) = a_pod(|_| {});
    let own = Reading { wanted: Some(Wanted::On), ..by(Some(Parser::Json), None) };
    let reading = Reading { wanted: Some(Wanted::Off), ..Reading::default() };
    let containers = BTreeMap::from([("app".to_owned(), own)]);
    told.tell_pod("1", "a", Pod { reading, containers, ..Pod::default() });
    fs::create_dir_all(rig.path("shop_cart_1/proxy")).unwrap();
    rig.append("shop_cart_1/proxy/0.log", "2026-11-25T04:00:00.1Z stdout F off\n");
    write(&rig, r#"{"msg": "on"}"#);
    rig.start();
    assert_eq!(until(&rig, 1)[0].text, "on");
    rig.until_metric("millrace_files_behind_bytes", |bytes| bytes == 0);
    rig.until_metric("millrace_files_records_total", |records| records == 1);
    rig.stop();
}

/// Scenario: a pod says that it prints traces of Java, and another time how its records begin.
/// Guarantee: a trace is one record, and so is what a beginning starts; lines around are their own.
#[test]
fn a_pod_says_which_lines_are_one_record() {
    let trace = ["java.lang.Error: bad", "\tat a.B.c(B.java:5)", "Caused by: x.YException: z"];
    for (multiline, lines, expected) in [
        (Multiline::Traces(Traces::Java), trace, vec![trace.join("\n")]),
        (
            Multiline::Start("^E".into()),
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

/// Scenario: a record of several lines is open when its pod asks for lines of their own and a
/// parser; all is read, and the collector starts anew. Guarantee: what was open comes before the
/// next line, each line comes once, and positions are right.
#[test]
fn a_change_takes_effect_between_records() {
    let (mut rig, told) = a_pod(|_| {});
    told.tell_pod("1", "a", all(by(None, Some(Multiline::Traces(Traces::Java)))));
    ["E 1", " at x"].iter().for_each(|line| write(&rig, line));
    rig.start();
    // Read, and open.
    rig.until_metric("millrace_files_read_bytes_total", |bytes| bytes > 0);
    told.tell_pod("1", "a", all(by(Some(Parser::Json), Some(Multiline::None))));
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

/// Scenario: nothing is known of a pod for longer than a record waits; then its annotations are.
/// Guarantee: the first line is read as the settings say, those that follow by the annotations.
#[test]
fn what_is_known_late_holds_from_the_next_line_on() {
    let (mut rig, told) = a_pod(|_| {});
    write(&rig, r#"{"msg": "one"}"#);
    rig.start();
    assert_eq!(until(&rig, 1)[0].text, r#"{"msg": "one"}"#);
    told.tell_pod("1", "a", all(by(Some(Parser::Json), None)));
    write(&rig, r#"{"msg": "two"}"#);
    assert_eq!(until(&rig, 2)[1].text, "two");
    rig.stop();
}

/// Scenario: lines name their fields like what the collector writes, under each parser that a pod
/// can choose and with traces. Guarantee: the resource has what path and API server say and no more;
/// the record's own attributes have the names with a prefix.
#[test]
fn no_line_can_forge_an_attribute_with_a_parser_that_its_pod_chose() {
    let forged = ["k8s.pod.name", "k8s.namespace.name", "k8s.pod.label.app", "k8s.node.name"];
    let json = forged.map(|name| format!(r#""{name}": "forged""#)).join(", ");
    let logfmt = forged.map(|name| format!("{name}=forged")).join(" ");
    for (parser, line) in [
        (Parser::Json, format!("{{{json}}}")),
        (Parser::Json, r#"{"k8s": {"pod": {"name": "forged"}, "pod.uid": "forged"}}"#.into()),
        (Parser::Logfmt, logfmt),
    ] {
        for multiline in [None, Some(Multiline::Traces(Traces::Go))] {
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
