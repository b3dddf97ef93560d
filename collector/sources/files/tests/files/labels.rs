//! Tests pods' metadata in the records of their files.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millrace_config::{ContainersReceiver, Parse, ParseFormat};
use millrace_pipeline::pods::{LogReading, PodInfo, PodLookup, Reading};
use millrace_source_files::SourceSettings;

use crate::files::rig::Rig;
use millrace_fake_publisher::Script;

const LABEL: &str = "k8s.pod.label.app";
const UNLABELED: &str = "millrace_files_unlabeled_total";

/// Pods as the test reports them.
#[derive(Default)]
pub(crate) struct Told(Mutex<(u64, HashMap<String, Arc<PodInfo>>)>);

impl Told {
    fn tell(&self, uid: &str, label: &str, is_off: bool) {
        let wanted = is_off.then_some(LogReading::Off);
        let reading = Reading { logs: wanted, ..Reading::default() };
        self.tell_pod(uid, label, PodInfo { reading, ..PodInfo::default() });
    }

    pub(crate) fn tell_pod(&self, uid: &str, label: &str, pod: PodInfo) {
        let attributes = vec![(LABEL.to_owned(), label.to_owned())];
        let mut told = self.0.lock().unwrap();
        told.0 += 1;
        told.1.insert(uid.to_owned(), Arc::new(PodInfo { attributes, ..pod }));
    }
}

impl PodLookup for Told {
    fn version(&self) -> u64 {
        self.0.lock().unwrap().0
    }

    fn find_pod(&self, uid: &str, namespace: &str, name: &str) -> Option<Arc<PodInfo>> {
        assert_eq!((namespace, name), ("shop", "cart"));
        self.0.lock().unwrap().1.get(uid).cloned()
    }
}

/// A receiver of the pod `shop/cart` with the uid `1`.
pub(crate) fn a_pod(settings: impl FnOnce(&mut ContainersReceiver)) -> (Rig, Arc<Told>) {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("logs");
    let mut receiver = ContainersReceiver { directory, ..ContainersReceiver::default() };
    settings(&mut receiver);
    let mut rig = Rig::with(folder, vec![SourceSettings::Containers(receiver)]);
    let told = Arc::new(Told::default());
    rig.pods = Some(Arc::clone(&told) as _);
    fs::create_dir_all(rig.path("shop_cart_1/app")).unwrap();
    (rig, told)
}

pub(crate) fn write(rig: &Rig, text: &str) {
    rig.append("shop_cart_1/app/0.log", &format!("2026-11-25T04:00:00.1Z stdout F {text}\n"));
}

/// The received lines, each with the label of its pod.
fn labeled(rig: &Rig) -> Vec<(String, Option<String>)> {
    let lines = rig.publisher.records.lock().unwrap();
    let label = |resource: &[(String, String)]| {
        resource.iter().find(|(name, _)| name == LABEL).map(|(_, value)| value.clone())
    };
    lines.iter().map(|line| (line.text.clone(), label(&line.resource))).collect()
}

fn until_labeled(rig: &Rig, expected: &[(&str, Option<&str>)]) {
    rig.until("all lines", || labeled(rig).len() >= expected.len());
    let came = labeled(rig);
    let came: Vec<_> = came.iter().map(|(text, label)| (text.as_str(), label.as_deref())).collect();
    assert_eq!(came, expected);
}

/// Scenario: a pod is known, and its label changes while it lives. Guarantee: each record has the
/// label of its time, and none is without.
#[test]
fn records_have_their_pods_labels_as_they_are() {
    let (mut rig, told) = a_pod(|_| {});
    told.tell("1", "a", false);
    write(&rig, "one");
    rig.start();
    until_labeled(&rig, &[("one", Some("a"))]);
    told.tell("1", "b", false);
    // The change is applied before a scan, so a line that a scan finds has the new label.
    write(&rig, "two");
    until_labeled(&rig, &[("one", Some("a")), ("two", Some("b"))]);
    rig.until_metric(UNLABELED, |count| count == 0);
    rig.stop();
}

/// Scenario: a file exists before its pod is known, and the pod becomes known. Guarantee: the
/// record waits for it.
#[test]
fn a_record_waits_for_its_pod() {
    let (mut rig, told) = a_pod(|_| {});
    write(&rig, "one");
    rig.start();
    // The file is open, and not read.
    rig.until_metric("millrace_files_open", |open| open == 1);
    assert_eq!(labeled(&rig), []);
    told.tell("1", "a", false);
    until_labeled(&rig, &[("one", Some("a"))]);
    rig.stop();
}

/// Scenario: a pod is unknown, as while the API server is unreachable; later it is known.
/// Guarantee: its record is sent after at least a second, without labels, counted, with the path's
/// attributes; the following ones have labels.
#[test]
fn a_record_goes_without_labels_after_a_second() {
    let (mut rig, told) = a_pod(|_| {});
    write(&rig, "one");
    let began = Instant::now();
    rig.start();
    until_labeled(&rig, &[("one", None)]);
    assert!(began.elapsed() >= Duration::from_secs(1));
    let name = ("k8s.pod.name".to_owned(), "cart".to_owned());
    assert!(rig.publisher.records.lock().unwrap()[0].resource.contains(&name));
    rig.until_metric(UNLABELED, |count| count == 1);
    told.tell("1", "a", false);
    write(&rig, "two");
    until_labeled(&rig, &[("one", None), ("two", Some("a"))]);
    rig.stop();
}

/// Scenario: a pod turns its logs off, then on, then off again, and the collector restarts.
/// Guarantee: lines written while off are never sent, none is repeated, and no backlog remains.
#[test]
fn lines_of_a_pod_that_is_off_are_passed_over() {
    let (mut rig, told) = a_pod(|_| {});
    told.tell("1", "a", true);
    write(&rig, "off");
    rig.start();
    rig.until_metric("millrace_files_read_bytes_total", |bytes| bytes > 0);
    rig.until_metric("millrace_files_behind_bytes", |bytes| bytes == 0);
    told.tell("1", "a", false);
    write(&rig, "on");
    until_labeled(&rig, &[("on", Some("a"))]);
    rig.stop();
    told.tell("1", "a", true);
    write(&rig, "off again");
    rig.start();
    rig.until_metric("millrace_files_read_bytes_total", |bytes| bytes > 0);
    rig.until_metric("millrace_files_behind_bytes", |bytes| bytes == 0);
    rig.until_metric("millrace_files_records_total", |records| records == 0);
    rig.stop();
    told.tell("1", "a", false);
    write(&rig, "last");
    rig.start();
    until_labeled(&rig, &[("on", Some("a")), ("last", Some("a"))]);
    rig.stop();
}

/// Scenario: fields of a line are named like pods' attributes. Guarantee: the record's own
/// attributes have them under another name; the resource has the pod's.
#[test]
fn no_line_can_set_its_pods_labels() {
    let parse = Parse { format: ParseFormat::Json, ..Parse::default() };
    let (mut rig, told) = a_pod(|receiver| receiver.parse = parse);
    told.tell("1", "a", false);
    write(&rig, &format!(r#"{{"message": "m", "{LABEL}": "forged", "k8s.node.name": "n"}}"#));
    rig.start();
    until_labeled(&rig, &[("m", Some("a"))]);
    let lines = rig.publisher.records.lock().unwrap();
    let names: Vec<_> = lines[0].attributes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, [&format!("line.{LABEL}"), "line.k8s.node.name", "log.iostream"]);
}

/// Scenario: pods of several namespaces, some of which are selected or excluded by name. Guarantee:
/// only the selected ones are read.
#[test]
fn namespaces_are_chosen_by_name() {
    for (namespaces, excluded, expected) in [
        (&["shop", "bank"][..], &["bank"][..], vec!["shop"]),
        (&[], &["shop"], vec!["bank", "kube"]),
    ] {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (mut rig, _) = a_pod(|receiver| {
            receiver.namespaces = owned(namespaces);
            receiver.exclude_namespaces = owned(excluded);
        });
        rig.pods = None;
        for namespace in ["shop", "bank", "kube"] {
            let folder = format!("{namespace}_cart_1/app");
            fs::create_dir_all(rig.path(&folder)).unwrap();
            let line = format!("2026-11-25T04:00:00.1Z stdout F {namespace}\n");
            rig.append(&format!("{folder}/0.log"), &line);
        }
        rig.start();
        rig.until_exactly(expected.into_iter().map(str::to_owned).collect());
        rig.stop();
    }
}

/// Scenario: everything that a pod writes is refused, then accepted. Guarantee: in the first case
/// the bytes and their time are reported for its namespace; in the second no backlog and no
/// namespace are reported.
#[test]
fn what_is_behind_is_told_by_namespace() {
    let (mut rig, told) = a_pod(|_| {});
    told.tell("1", "a", false);
    rig.script(Script::Refuse);
    write(&rig, "one");
    let length = fs::metadata(rig.path("shop_cart_1/app/0.log")).unwrap().len();
    rig.start();
    rig.until_metric("millrace_files_behind_seconds", |seconds| seconds > 0);
    let text = rig.telemetry.render().unwrap();
    let of_shop =
        |name: &str| format!("millrace_files_namespace_{name}{{writer_namespace=\"shop\"}} ");
    assert!(text.contains(&format!("{}{length}\n", of_shop("behind_bytes"))), "{text}");
    assert!(text.contains(&of_shop("behind_seconds")), "{text}");
    rig.script(Script::Deliver);
    rig.until_metric("millrace_files_behind_seconds", |seconds| seconds == 0);
    rig.until_metric("millrace_files_behind_bytes", |bytes| bytes == 0);
    rig.until("no namespace", || !rig.telemetry.render().unwrap().contains("writer_namespace"));
    rig.stop();
}
