//! An image of files alone, for those who unpack it: it has no program, and is the same for every
//! platform. Its configuration names one all the same, as the format asks.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::{BuiltImage, ImageName, Layer, Platform, parts, write_parts};
use crate::error::Result;

/// Makes the archive of an image of files, compressed, replacing an earlier one.
///
/// # Errors
/// When it can't be written.
pub fn write_files(
    path: &Path,
    name: &ImageName,
    files: Layer,
    labels: &BTreeMap<String, String>,
) -> Result<BuiltImage> {
    let config = |layer_digest: &str| {
        Ok(json!({
            "architecture": Platform::Amd64.architecture(),
            "os": "linux",
            "config": {"Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        }))
    };
    write_parts(path, name, parts(files, true, config)?)
}

#[cfg(test)]
mod tests {
    use super::super::inspect;
    use super::{BTreeMap, ImageName, Layer, write_files};

    /// Scenario: the same files twice, then with another label. Guarantee: one digest, by which the
    /// archive's index names the image; a label is part of it.
    #[test]
    fn the_same_files_give_the_same_image() {
        let folder = tempfile::tempdir().unwrap();
        let name = ImageName::new("millrace/example:1.0.0").unwrap();
        let write = |file: &str, label: &str| {
            let mut files = Layer::new();
            files.file("/manifests/a.yaml", 0o644, b"a: 1\n");
            let labels = BTreeMap::from([("kind".to_owned(), label.to_owned())]);
            write_files(&folder.path().join(file), &name, files, &labels).unwrap()
        };
        let (first, second) = (write("a.tar", "files"), write("b.tar", "files"));
        assert_eq!(first.digest, second.digest);
        assert_eq!(inspect(&first.archive).unwrap().digest, first.digest);
        assert_ne!(first.digest, write("c.tar", "other").digest);
    }
}
