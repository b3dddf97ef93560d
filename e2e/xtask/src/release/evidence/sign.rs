//! Signing and checking, by cosign with a key: of images, charts, attestations and files.
//!
//! Nothing is written to a transparency log, since a release is made offline: whoever checks has to
//! have the public key from a place of its own. `MILLRACE_RELEASE_KEY` names the key (a file or what
//! cosign takes besides) and `COSIGN_PASSWORD` opens it; without it a pair is made for the run, which
//! shows that signing works and vouches for nobody.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::release::plan;
use crate::shell;

const KEY_VARIABLE: &str = "MILLRACE_RELEASE_KEY";
/// Of a pair that lives as long as the run.
const OWN_PASSWORD: &str = "of-one-run";

/// What an attestation says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bill,
    Provenance,
}

impl Kind {
    /// cosign's name.
    const fn name(self) -> &'static str {
        match self {
            Self::Bill => "cyclonedx",
            Self::Provenance => "slsaprovenance1",
        }
    }
}

/// cosign with a key.
#[derive(Debug)]
pub(crate) struct Signer {
    program: PathBuf,
    key: String,
    /// The file of the public key.
    pub(crate) public: PathBuf,
    /// Whether the pair was made for this run.
    pub(crate) is_own: bool,
}

impl Signer {
    /// With the key that is given, or a new pair in `scratch`; the public key is put into `public`.
    pub(crate) fn new(program: &Path, scratch: &Path, public: &Path) -> Result<Self> {
        let given = std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty());
        let is_own = given.is_none();
        let key = match given {
            Some(key) => key,
            None => Self::pair(program, scratch)?,
        };
        let signer = Self { program: program.into(), key, public: public.into(), is_own };
        let text = signer.output(&["public-key", "--key", &signer.key])?;
        plan::write(public, text.as_bytes())?;
        Ok(signer)
    }

    /// Another new pair, which a release is not signed with.
    pub(crate) fn stranger(&self, scratch: &Path) -> Result<Self> {
        let folder = scratch.join("stranger");
        std::fs::create_dir_all(&folder).context("no folder for another pair of keys")?;
        let key = Self::pair(&self.program, &folder)?;
        let public = folder.join("own.pub");
        Ok(Self { program: self.program.clone(), key, public, is_own: true })
    }

    fn pair(program: &Path, folder: &Path) -> Result<String> {
        let prefix = folder.join("own");
        let mut command = Command::new(program);
        command.args(["generate-key-pair", "--output-key-prefix"]).arg(&prefix);
        command.env("COSIGN_PASSWORD", OWN_PASSWORD);
        shell::said("cosign", &command.output().context("cosign could not be started")?)?;
        Ok(prefix.with_extension("key").to_string_lossy().into_owned())
    }

    fn output(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(args);
        if self.is_own {
            command.env("COSIGN_PASSWORD", OWN_PASSWORD);
        }
        let output = command.output().context("cosign could not be started")?;
        shell::said(&format!("cosign {}", args.first().unwrap_or(&"")), &output)
    }

    /// Signs what a registry has under a digest; `identity` is what it is called to users.
    pub(crate) fn sign(&self, reference: &str, identity: &str) -> Result<()> {
        let args = ["sign", "--yes", "--tlog-upload=false", "--key", &self.key];
        let identity = format!("--sign-container-identity={identity}");
        self.output(&[&args[..], &[&identity, reference]].concat()).map(drop)
    }

    /// Attaches a signed statement to it.
    pub(crate) fn attest(&self, kind: Kind, reference: &str, predicate: &Path) -> Result<()> {
        let predicate = predicate.to_string_lossy();
        let args = ["attest", "--yes", "--tlog-upload=false", "--key", &self.key];
        let what = ["--type", kind.name(), "--predicate", &predicate, reference];
        self.output(&[&args[..], &what].concat()).map(drop)
    }

    /// Signs a file; the signature is beside it, with `.sig` after its name.
    pub(crate) fn sign_file(&self, file: &Path) -> Result<()> {
        let signature = signature_of(file);
        let (file, signature) = (file.to_string_lossy(), signature.to_string_lossy());
        let args = ["sign-blob", "--yes", "--tlog-upload=false", "--key", &self.key];
        let out = ["--output-signature", &signature, &file];
        self.output(&[&args[..], &out].concat()).map(drop)
    }

    /// Checks what a registry has under a name or digest.
    pub(crate) fn verify(&self, reference: &str) -> Result<()> {
        self.check(&["verify"], &[reference])
    }

    /// Checks a statement that is attached to it.
    pub(crate) fn verify_attestation(&self, kind: Kind, reference: &str) -> Result<()> {
        self.check(&["verify-attestation", "--type", kind.name()], &[reference])
    }

    /// Checks a file with the signature beside it.
    pub(crate) fn verify_file(&self, file: &Path) -> Result<()> {
        let signature = signature_of(file);
        let (file, signature) = (file.to_string_lossy(), signature.to_string_lossy());
        self.check(&["verify-blob"], &["--signature", &signature, &file])
    }

    fn check(&self, verb: &[&str], rest: &[&str]) -> Result<()> {
        let public = self.public.to_string_lossy();
        let key = ["--private-infrastructure", "--key", &public];
        self.output(&[verb, &key, rest].concat()).map(drop)
    }
}

/// Where a file's signature is.
fn signature_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".sig");
    PathBuf::from(name)
}

/// An error unless something was refused, and for the right reason: one whose words are in `reasons`.
pub(crate) fn refused(what: &str, reasons: &[&str], outcome: Result<()>) -> Result<()> {
    let Err(error) = outcome else { bail!("{what} was accepted; it must be refused") };
    let said = format!("{error:#}");
    match reasons.iter().any(|reason| said.contains(reason)) {
        true => Ok(()),
        false => Err(error).with_context(|| format!("{what} was refused, but not for what it is")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Path, refused, signature_of};

    /// Scenario: what passes, what is refused for the reason, and for another. Guarantee: only the
    /// second is a refusal: a program that can't start must not look like one.
    #[test]
    fn a_refusal_has_its_reason() {
        let failed = |text: &'static str| Err(anyhow::anyhow!(text));
        assert!(refused("it", &["invalid signature"], Ok(())).is_err());
        assert!(refused("it", &["invalid signature"], failed("x: invalid signature")).is_ok());
        assert!(refused("it", &["invalid signature"], failed("no such file")).is_err());
    }

    /// Scenario: a file with an ending. Guarantee: the signature's name keeps it.
    #[test]
    fn a_signature_lies_beside_its_file() {
        assert_eq!(signature_of(Path::new("/a/b.json")), Path::new("/a/b.json.sig"));
    }
}
