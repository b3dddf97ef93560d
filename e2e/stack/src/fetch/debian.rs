//! Debian packages unpacked into the cache, of this machine's architecture or another's.
//!
//! No package is installed, so no service, user or kernel setting comes with it, and the machine's
//! own package lists stay as they are: apt keeps lists of its own in the cache, and checks their
//! signatures as ever. Versions are those that Debian has on the day a set is first unpacked.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Result;
use crate::progress::Progress;
use crate::service::{create_dir, install_once, run};

/// Lists of one architecture, the archives, and their files; who owns a file is kept in `OWNERS`, a
/// line each: path, package, version. Absolute links are made to lead inside the folder.
const FETCH: &str = r#"
architecture=$1; shift
mkdir -p apt/lists/partial apt/archives/partial
apt() {
    apt-get --quiet -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
        -o APT::Sandbox::User=root -o Dir::State::lists="$PWD/apt/lists" \
        -o Dir::State::status=/dev/null -o Dir::Cache="$PWD/apt" "$@"
}
apt update
rm -f ./*.deb
apt download "$@"
: >OWNERS
for archive in ./*.deb; do
    dpkg --extract "$archive" .
    owner="$(dpkg-deb --field "$archive" Package)	$(dpkg-deb --field "$archive" Version)"
    dpkg-deb --fsys-tarfile "$archive" | tar --list | sed -n 's|^\./|/|p' |
        while read -r path; do printf '%s\t%s\n' "$path" "$owner"; done >>OWNERS
done
find . -type l -lname '/*' | while read -r link; do
    ln -sfrn "$PWD$(readlink "$link")" "$link"
done
rm -rf apt ./*.deb
"#;

/// A set of packages in a folder of the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Set<'a> {
    /// The folder's name.
    pub(crate) folder: &'a str,
    /// Debian's name of the architecture; none for this machine's.
    pub(crate) architecture: Option<&'a str>,
    pub(crate) packages: &'a [&'a str],
    /// What is downloaded, for people who wait.
    pub(crate) megabytes: u32,
}

impl Set<'_> {
    /// The folder that the packages' files are in, as they would be in `/`.
    pub(crate) fn unpacked(&self, progress: &dyn Progress) -> Result<PathBuf> {
        let Self { folder, architecture, packages, megabytes } = self;
        let architecture = architecture.map_or_else(native, str::to_owned);
        let recipe = format!("{architecture}: {}\n", packages.join(" "));
        let unpacked = install_once(folder, &recipe, |partial: &Path| {
            progress.tell(&format!("fetching Debian's {} ({megabytes} MB)", packages.join(", ")));
            create_dir(partial)?;
            let mut fetch = Command::new("sh");
            fetch.args(["-euc", FETCH, "sh", &architecture]).args(*packages).current_dir(partial);
            run(&format!("fetch and unpack Debian's {}", packages.join(", ")), &mut fetch)
        })?;
        Ok(unpacked)
    }
}

/// Debian's name of this machine's architecture.
fn native() -> String {
    crate::fetch::image::Platform::host()
        .map_or(std::env::consts::ARCH, |it| it.architecture())
        .to_owned()
}
