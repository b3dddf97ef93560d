//! What the charts render by default, as text: manifests/install.yaml and manifests/monitoring.yaml,
//! which `manifests/render --check` holds to the charts.

use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines of an object's own metadata.
fn metadata(object: &str) -> Vec<&str> {
    let lines = object.lines().skip_while(|line| *line != "metadata:").skip(1);
    lines.take_while(|line| line.starts_with(' ')).collect()
}

/// Scenario: every object that the charts make. Guarantee: it has the labels by which tools find what
/// belongs together; the namespace, which no chart makes, aside.
#[test]
fn every_object_has_the_recommended_labels() {
    let mut objects = 0;
    for path in ["manifests/install.yaml", "manifests/monitoring.yaml"] {
        let text = read(path);
        for object in text.split("\n---\n").filter(|it| it.contains("\nmetadata:\n")) {
            if object.contains("\nkind: Namespace\n") {
                continue;
            }
            objects += 1;
            let found = metadata(object);
            for label in ["name", "instance", "component", "version", "managed-by"] {
                let line = format!("    app.kubernetes.io/{label}: ");
                let has = found.iter().any(|it| it.starts_with(&line));
                assert!(has, "{path}: {found:?} lacks {label}");
            }
        }
    }
    assert!(objects >= 20, "{objects}");
}
