//! One image for several platforms: an OCI index of images, in one archive.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{
    INDEX_TYPE, ImageName, ImageSpec, MANIFEST_TYPE, Platform, archive, descriptor, digest,
};
use crate::error::{Result, StackError};

/// An index that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltIndex {
    /// The archive.
    pub archive: PathBuf,
    /// The index's digest: what a registry answers to the tag.
    pub digest: String,
    /// Each platform's image with the digest of its manifest.
    pub images: Vec<(Platform, String)>,
}

/// Makes the archive of an index of images, one for each platform, replacing an earlier one.
///
/// # Errors
/// When there is no image, two are of one platform, or one can't be made.
pub fn write_index(path: &Path, name: &ImageName, images: &[ImageSpec]) -> Result<BuiltIndex> {
    let mut blobs = Vec::new();
    let mut entries = Vec::new();
    let mut built: Vec<(Platform, String)> = Vec::new();
    for spec in images {
        let platform = spec.platform()?;
        if built.iter().any(|(other, _)| *other == platform) {
            let problem = format!("two images for {}", platform.architecture());
            return Err(StackError::Image { image: name.to_string(), problem });
        }
        let parts = spec.parts(path)?;
        let mut entry = descriptor(MANIFEST_TYPE, &parts.manifest);
        entry["platform"] = json!({"architecture": platform.architecture(), "os": "linux"});
        entries.push(entry);
        built.push((platform, digest(&parts.manifest)));
        blobs.extend([parts.layer, parts.config, parts.manifest]);
    }
    if built.is_empty() {
        let problem = "an index needs an image".to_owned();
        return Err(StackError::Image { image: name.to_string(), problem });
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries});
    let index = index.to_string().into_bytes();
    let entry = descriptor(INDEX_TYPE, &index);
    let index_digest = digest(&index);
    blobs.push(index);
    archive(path, name, entry, &blobs)?;
    Ok(BuiltIndex { archive: path.to_path_buf(), digest: index_digest, images: built })
}

#[cfg(test)]
mod tests {
    use super::{ImageName, ImageSpec, write_index};

    fn spec() -> ImageSpec {
        let name = ImageName::new("millrace/example:1.0.0").unwrap();
        ImageSpec::new(name, std::path::Path::new("/bin/true")).unwrap().compressed()
    }

    /// Scenario: an index made twice, and one of two images for one platform. Guarantee: one digest,
    /// by which the archive's own index names it; two images for one platform are refused.
    #[test]
    fn an_index_has_one_image_for_each_platform() {
        let folder = tempfile::tempdir().unwrap();
        let name = ImageName::new("millrace/example:1.0.0").unwrap();
        let write = |file: &str, images: &[ImageSpec]| {
            write_index(&folder.path().join(file), &name, images)
        };
        let (first, second) =
            (write("a.tar", &[spec()]).unwrap(), write("b.tar", &[spec()]).unwrap());
        assert_eq!(first.digest, second.digest);
        assert_eq!(super::super::inspect(&first.archive).unwrap().digest, first.digest);
        let refused = write("c.tar", &[spec(), spec()]).unwrap_err().to_string();
        assert!(refused.contains("two images"), "{refused}");
        assert!(write("d.tar", &[]).is_err());
    }
}
