//! Tests containers of Docker, where the kubelet's files are links to Docker's own.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use millrace_config::{ContainersReceiver, LabelSelector};
use millrace_pipeline::pods::Namespaces;
use millrace_source_files::SourceSettings;

use crate::files::rig::Rig;

/// A receiver that follows links to Docker's files, and a directory for them.
fn with_docker() -> (Rig, Arc<Namespaces>) {
    let folder = tempfile::tempdir().unwrap();
    let receiver = ContainersReceiver {
        directory: folder.path().join("logs"),
        docker_directory: Some(folder.path().join("docker")),
        namespace_selector: Some(LabelSelector::default()),
        ..ContainersReceiver::default()
    };
    let mut rig = Rig::with(folder, vec![SourceSettings::Containers(receiver)]);
    let namespaces = Arc::new(Namespaces::default());
    rig.namespaces = Some(Arc::clone(&namespaces));
    tell(&namespaces, &["shop"]);
    (rig, namespaces)
}

fn tell(namespaces: &Namespaces, chosen: &[&str]) {
    namespaces.set_chosen(chosen.iter().map(|name| (*name).to_owned()).collect());
}

/// The path of a container's Docker file.
fn of_docker(rig: &Rig, id: &str) -> PathBuf {
    rig.folder.path().join(format!("docker/{id}/{id}-json.log"))
}

/// Writes a line as Docker does.
fn write(rig: &Rig, id: &str, text: &str) {
    let file = of_docker(rig, id);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let mut file = OpenOptions::new().append(true).create(true).open(file).unwrap();
    let time = "2026-11-25T04:00:00.000000001Z";
    let line = format!("{{\"log\":\"{text}\\n\",\"stream\":\"stdout\",\"time\":\"{time}\"}}\n");
    file.write_all(line.as_bytes()).unwrap();
}

/// Creates a container's link as the kubelet does.
fn link(rig: &Rig, pod: &str, to: &std::path::Path) {
    let folder = format!("shop_{pod}_1/app");
    fs::create_dir_all(rig.path(&folder)).unwrap();
    symlink(to, rig.path(&folder).join("0.log")).unwrap();
}

fn expected(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// Scenario: a container's link leads from the kubelet's directory to Docker's file, before that
/// file exists; Docker writes and rotates it; the process restarts. Links next to it lead to
/// Docker's settings of a container, and elsewhere. Guarantee: each line is sent once, with the pod
/// of the link's path; no line of the other files is.
#[test]
fn links_to_dockers_files_are_read_and_no_others() {
    let (mut rig, _namespaces) = with_docker();
    link(&rig, "cart", &of_docker(&rig, "ab"));
    write(&rig, "cd", "of another");
    let settings = rig.folder.path().join("docker/cd/config.v2.json");
    let elsewhere = rig.folder.path().join("secret-json.log");
    for (pod, file) in [("evil", &settings), ("worse", &elsewhere)] {
        fs::write(file, "a secret\n").unwrap();
        link(&rig, pod, file);
    }
    rig.start();
    write(&rig, "ab", "one");
    rig.until_exactly(expected(&["one"]));
    write(&rig, "ab", "two");
    rig.until_exactly(expected(&["one", "two"]));
    let file = of_docker(&rig, "ab");
    write(&rig, "ab", "three");
    fs::rename(&file, file.with_extension("log.1")).unwrap();
    write(&rig, "ab", "four");
    rig.until_exactly(expected(&["one", "two", "three", "four"]));
    rig.stop();
    write(&rig, "ab", "five");
    rig.start();
    rig.until_exactly(expected(&["one", "two", "three", "four", "five"]));
    for line in rig.publisher.records.lock().unwrap().iter() {
        assert!(line.resource.contains(&("k8s.pod.name".into(), "cart".into())), "{line:?}");
    }
    rig.until_metric("millrace_files_lost_bytes_total", |bytes| bytes == 0);
    rig.stop();
}

/// Scenario: a namespace with such a link is deselected, and a line is written; then it is selected
/// again. Guarantee: nothing is lost in that time, and the line is sent then, once.
#[test]
fn a_namespace_that_is_left_out_goes_on_behind_its_links() {
    let (mut rig, namespaces) = with_docker();
    link(&rig, "cart", &of_docker(&rig, "ab"));
    write(&rig, "ab", "one");
    rig.start();
    rig.until_exactly(expected(&["one"]));
    tell(&namespaces, &["bank"]);
    rig.until_metric("millrace_files_open", |open| open == 0);
    write(&rig, "ab", "two");
    tell(&namespaces, &["shop"]);
    rig.until_exactly(expected(&["one", "two"]));
    rig.until_metric("millrace_files_lost_bytes_total", |bytes| bytes == 0);
    rig.stop();
}

/// Scenario: the same link without Docker's directory in the settings. Guarantee: it isn't read,
/// and files next to it are.
#[test]
fn without_dockers_directory_no_link_is_followed() {
    let (mut rig, _namespaces) = with_docker();
    let SourceSettings::Containers(receiver) = &mut rig.sources[0] else { unreachable!() };
    receiver.docker_directory = None;
    write(&rig, "ab", "behind a link");
    link(&rig, "cart", &of_docker(&rig, "ab"));
    fs::create_dir_all(rig.path("shop_bank_2/app")).unwrap();
    rig.append("shop_bank_2/app/0.log", "2026-11-25T04:00:00.1Z stdout F a file\n");
    rig.start();
    rig.until_exactly(expected(&["a file"]));
    rig.stop();
}
