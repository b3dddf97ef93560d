//! Container images without Docker: an OCI layout in a tar, made from one binary.
//!
//! The files are those of the Dockerfiles: the binary, the dynamic loader and the shared libraries
//! it is linked with, the authorities to trust, two users, `/tmp`; no shell. The same input gives
//! the same digest: times are zero, owners root, entries sorted. Layers are compressed where asked
//! for: most archives stay on one machine. It makes no image of several layers.

mod files;
mod index;
mod layer;
mod libraries;
mod name;
mod platform;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::error::{Result, StackError};
use crate::service::{create_dir, find_tool, io_error, run};
pub use files::write_files;
pub use index::{BuiltIndex, write_index};
pub use layer::{Layer, gzip};
pub use name::ImageName;
pub use platform::Platform;

/// The user that images run as: the number that "nonroot" has in other minimal images too.
pub const NONROOT: u32 = 65532;
/// Where the authorities to trust are, on Debian and in the image.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
const BINARY_FOLDER: &str = "/usr/local/bin";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
const LAYER_GZIP_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";

/// An image to be made.
#[derive(Debug, Clone)]
pub struct ImageSpec {
    name: ImageName,
    binary: PathBuf,
    program: String,
    strip: bool,
    compress: bool,
    /// Another machine's platform, and the folder with its libraries.
    foreign: Option<(Platform, PathBuf)>,
    labels: BTreeMap<String, String>,
}

/// The blobs of one platform's image.
#[derive(Debug)]
struct Parts {
    layer: Vec<u8>,
    config: Vec<u8>,
    manifest: Vec<u8>,
    plain_bytes: u64,
}

/// An image that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltImage {
    /// The archive.
    pub archive: PathBuf,
    /// The manifest's digest, `sha256:` and 64 hex digits.
    pub digest: String,
    /// Bytes of everything in the image, not compressed.
    pub size_bytes: u64,
}

impl ImageSpec {
    /// An image whose entry point is `binary`, under its own file name in `/usr/local/bin`.
    ///
    /// # Errors
    /// When the path has no file name.
    pub fn new(name: ImageName, binary: &Path) -> Result<Self> {
        let program = binary.file_name().and_then(|file| file.to_str()).map(str::to_owned);
        let Some(program) = program else {
            let problem = format!("{} is not a program's path", binary.display());
            return Err(StackError::Image { image: name.to_string(), problem });
        };
        let labels = BTreeMap::from([
            ("org.opencontainers.image.version".to_owned(), name.tag().to_owned()),
            ("org.opencontainers.image.title".to_owned(), program.clone()),
        ]);
        let binary = binary.to_path_buf();
        Ok(Self { name, binary, program, strip: false, compress: false, foreign: None, labels })
    }

    /// Leaves symbols and debugging sections out of the image (the file given stays as it is).
    #[must_use]
    pub fn stripped(mut self) -> Self {
        self.strip = true;
        self
    }

    /// Compresses the layer, for images that go through networks.
    #[must_use]
    pub fn compressed(mut self) -> Self {
        self.compress = true;
        self
    }

    /// For another platform than this machine's, whose libraries are in `root`.
    #[must_use]
    pub fn foreign(mut self, platform: Platform, root: &Path) -> Self {
        self.foreign = Some((platform, root.to_path_buf()));
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Makes the archive, replacing an earlier one.
    ///
    /// # Errors
    /// When a file cannot be read or written, or a shared library of the binary is missing.
    pub fn write(&self, archive: &Path) -> Result<BuiltImage> {
        write_parts(archive, &self.name, self.parts(archive)?)
    }

    /// The shared libraries that the image has besides its program: where each is in the image, and
    /// the file that it is.
    ///
    /// # Errors
    /// When one is missing, or the program can't be read.
    pub fn libraries(&self) -> Result<BTreeMap<PathBuf, PathBuf>> {
        match &self.foreign {
            None => {
                Ok(libraries::of(&self.binary)?.into_iter().map(|it| (it.clone(), it)).collect())
            }
            Some((platform, root)) => libraries::below(&self.binary, *platform, root),
        }
    }

    /// The program as the image has it.
    ///
    /// # Errors
    /// When it can't be read or stripped.
    pub fn program(&self, scratch: &Path) -> Result<Vec<u8>> {
        self.program_bytes(scratch)
    }

    fn platform(&self) -> Result<Platform> {
        let foreign = self.foreign.as_ref().map(|(platform, _)| *platform);
        foreign.or_else(Platform::host).ok_or_else(|| StackError::Image {
            image: self.name.to_string(),
            problem: format!("no images are made for {}", std::env::consts::ARCH),
        })
    }

    fn parts(&self, archive: &Path) -> Result<Parts> {
        let config = |layer_digest: &str| self.config(layer_digest);
        parts(self.layer(archive)?, self.compress, config)
    }

    fn layer(&self, archive: &Path) -> Result<Layer> {
        let mut layer = Layer::new();
        layer.folder("/tmp", 0o1777);
        let user = |name: &str, id: u32| format!("{name}:x:{id}:{id}:{name}:/:/sbin/nologin\n");
        let passwd = user("root", 0) + &user("nonroot", NONROOT);
        layer.file("/etc/passwd", 0o644, passwd.as_bytes());
        let group = format!("root:x:0:\nnonroot:x:{NONROOT}:\n");
        layer.file("/etc/group", 0o644, group.as_bytes());
        layer.file("/etc/nsswitch.conf", 0o644, b"hosts: files dns\n");
        layer.file(AUTHORITIES, 0o644, &read(Path::new(AUTHORITIES))?);
        for (place, library) in self.libraries()? {
            layer.file(&place.to_string_lossy(), 0o755, &read(&library)?);
        }
        let program = format!("{BINARY_FOLDER}/{}", self.program);
        layer.file(&program, 0o755, &self.program_bytes(archive)?);
        Ok(layer)
    }

    fn program_bytes(&self, archive: &Path) -> Result<Vec<u8>> {
        if !self.strip {
            return Ok(read(&self.binary)?);
        }
        let tool = match &self.foreign {
            None => find_tool("strip", "apt-get install binutils")?,
            Some((platform, _)) => PathBuf::from(format!("{}-strip", platform.multiarch())),
        };
        let stripped = beside(archive, "stripped")?;
        let mut strip = Command::new(tool);
        strip.arg("--strip-all").arg("-o").arg(&stripped).arg(&self.binary);
        run(&format!("strip {}", self.binary.display()), &mut strip)?;
        let bytes = read(&stripped);
        let _ = fs::remove_file(&stripped);
        Ok(bytes?)
    }

    fn config(&self, layer_digest: &str) -> Result<Value> {
        Ok(json!({
            "architecture": self.platform()?.architecture(),
            "os": "linux",
            "config": {
                "User": format!("{NONROOT}:{NONROOT}"),
                "Entrypoint": [format!("{BINARY_FOLDER}/{}", self.program)],
                "Env": [format!("PATH={BINARY_FOLDER}"), format!("SSL_CERT_FILE={AUTHORITIES}")],
                "WorkingDir": "/",
                "Labels": self.labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
        }))
    }
}

/// An image's blobs, of its files and what the digest of those makes its configuration.
fn parts(
    layer: Layer,
    compress: bool,
    config: impl FnOnce(&str) -> Result<Value>,
) -> Result<Parts> {
    let plain = layer.finish()?;
    let (plain_bytes, plain_digest) = (plain.len() as u64, digest(&plain));
    let (layer_type, layer) = match compress {
        true => (LAYER_GZIP_TYPE, gzip(&plain)?),
        false => (LAYER_TYPE, plain),
    };
    let config = config(&plain_digest)?.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": descriptor(CONFIG_TYPE, &config),
        "layers": [descriptor(layer_type, &layer)],
    })
    .to_string()
    .into_bytes();
    Ok(Parts { layer, config, manifest, plain_bytes })
}

/// Writes an image's archive.
fn write_parts(path: &Path, name: &ImageName, parts: Parts) -> Result<BuiltImage> {
    let Parts { layer, config, manifest, plain_bytes } = parts;
    let digest = digest(&manifest);
    let entry = descriptor(MANIFEST_TYPE, &manifest);
    archive(path, name, entry, &[layer, config, manifest])?;
    Ok(BuiltImage { archive: path.to_path_buf(), digest, size_bytes: plain_bytes })
}

/// What an archive holds, without reading its layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArchiveContent {
    pub(crate) name: String,
    pub(crate) digest: String,
}

/// Reads the index of an archive.
pub(crate) fn inspect(archive: &Path) -> Result<ArchiveContent> {
    let wrong = |problem: &str| StackError::Image {
        image: archive.display().to_string(),
        problem: problem.to_owned(),
    };
    let file = File::open(archive).map_err(io_error(format!("open {}", archive.display())))?;
    let mut tar = tar::Archive::new(file);
    let reading = || io_error(format!("read {}", archive.display()));
    for entry in tar.entries().map_err(reading())? {
        let entry = entry.map_err(reading())?;
        if entry.path().map_err(reading())?.as_ref() != Path::new("index.json") {
            continue;
        }
        let index: Value =
            serde_json::from_reader(entry).map_err(|_| wrong("its index is not JSON"))?;
        let manifest = index.pointer("/manifests/0");
        let text = |pointer| Some(manifest?.pointer(pointer)?.as_str()?.to_owned());
        let name = text("/annotations/io.containerd.image.name");
        return match (name, text("/digest")) {
            (Some(name), Some(digest)) => Ok(ArchiveContent { name, digest }),
            _ => Err(wrong("its index names no image: make it with `ImageSpec::write`")),
        };
    }
    Err(wrong("it is not an OCI layout: there is no index.json in it"))
}

/// Writes the archive of what `entry` describes, and its blobs.
fn archive(path: &Path, name: &ImageName, mut entry: Value, blobs: &[Vec<u8>]) -> Result<()> {
    entry["annotations"] = json!({
        "io.containerd.image.name": name.to_string(),
        "org.opencontainers.image.ref.name": name.tag(),
    });
    let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]});
    let mut tar = Layer::new();
    tar.file("/oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#);
    tar.file("/index.json", 0o644, index.to_string().as_bytes());
    for blob in blobs {
        tar.file(&format!("/blobs/{}", digest(blob).replace(':', "/")), 0o644, blob);
    }
    replace_file(path, &tar.finish()?)
}

fn descriptor(media_type: &str, blob: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest(blob), "size": blob.len()})
}

/// `sha256:` and 64 hex digits.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn read(path: &Path) -> Result<Vec<u8>, crate::service::ServiceError> {
    fs::read(path).map_err(io_error(format!("read {}", path.display())))
}

/// A name for a file beside the archive that no other process writes.
fn beside(archive: &Path, kind: &str) -> Result<PathBuf> {
    if let Some(parent) = archive.parent() {
        create_dir(parent)?;
    }
    Ok(archive.with_extension(format!("{}.{kind}", std::process::id())))
}

/// Writes a file whole or not at all.
fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = beside(path, "partial")?;
    let write = || -> io::Result<()> {
        File::create(&partial)?.write_all(bytes)?;
        fs::rename(&partial, path)
    };
    Ok(write().map_err(io_error(format!("write {}", path.display())))?)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Command;

    use super::{ImageName, ImageSpec, inspect};

    fn spec() -> ImageSpec {
        let name = ImageName::new("millrace/example:1.0.0").unwrap();
        ImageSpec::new(name, std::path::Path::new("/bin/true")).unwrap()
    }

    /// A rebuild of the same binary must not look like a new image, or pods would be restarted.
    #[test]
    fn the_same_binary_gives_the_same_archive() {
        let folder = tempfile::tempdir().unwrap();
        let first = spec().write(&folder.path().join("a/image.tar")).unwrap();
        let second = spec().write(&folder.path().join("b/image.tar")).unwrap();
        assert_eq!(first.digest, second.digest);
        let bytes = |built: &super::BuiltImage| std::fs::read(&built.archive).unwrap();
        assert_eq!(bytes(&first), bytes(&second));
        let labelled = spec().label("revision", "2").write(&folder.path().join("c.tar")).unwrap();
        assert_ne!(first.digest, labelled.digest, "a label is part of the image");
    }

    /// The name is written in full, since that is how pods' images are looked up.
    #[test]
    fn an_archive_tells_its_name_and_digest() {
        let folder = tempfile::tempdir().unwrap();
        let built = spec().write(&folder.path().join("image.tar")).unwrap();
        let content = inspect(&built.archive).unwrap();
        assert_eq!(content.name, "docker.io/millrace/example:1.0.0");
        assert_eq!(content.digest, built.digest);
    }

    /// Everything a dynamically linked program needs to start is in the layer.
    #[test]
    fn an_image_holds_the_loader_and_the_libraries() {
        let folder = tempfile::tempdir().unwrap();
        let layer = spec().layer(&folder.path().join("image.tar")).unwrap().finish().unwrap();
        let mut tar = tar::Archive::new(layer.as_slice());
        let names: Vec<String> = tar
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().to_string_lossy().into_owned())
            .collect();
        for wanted in ["usr/local/bin/true", "etc/passwd", "etc/ssl/certs/ca-certificates.crt"] {
            assert!(names.iter().any(|name| name == wanted), "{wanted} is not in {names:?}");
        }
        assert!(names.iter().any(|name| name.contains("/ld-linux")), "{names:?}");
        assert!(names.iter().any(|name| name.ends_with("libc.so.6")), "{names:?}");
        let mut sorted = names.clone();
        sorted.sort();
        assert_eq!(names, sorted, "entries are not in order");
    }

    /// The Dockerfiles' script and this module must make the same files, or what is tested here is
    /// not what users run.
    #[test]
    fn the_dockerfiles_make_the_same_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("rootfs");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/image/rootfs.sh");
        let status = Command::new(script).arg("/bin/true").arg(&root).status().unwrap();
        assert!(status.success());
        let layer = spec().stripped().layer(&folder.path().join("image.tar")).unwrap();
        let layer = layer.finish().unwrap();
        let mut files = 0;
        for entry in tar::Archive::new(layer.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = root.join(entry.path().unwrap());
            assert!(path.exists(), "{} is not in the script's folder", path.display());
            if path.is_file() {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).unwrap();
                assert_eq!(std::fs::read(&path).unwrap(), bytes, "{}", path.display());
                files += 1;
            }
        }
        let found = Command::new("find").arg(&root).args(["-type", "f"]).output().unwrap();
        assert_eq!(String::from_utf8(found.stdout).unwrap().lines().count(), files);
    }
}
