//! Keys and certificates of the cluster: one authority, and a certificate for each who speaks.
//!
//! Made once for a state folder and thrown away with it. The authority's key never leaves that
//! folder, which only root can read.

use std::fs;
use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};

use crate::cluster::node::{NODE_IP, NODE_NAME, SERVICE_API};
use crate::error::{Result, StackError};
use crate::paths::Paths;
use crate::service::{io_error, write_file};

/// A certificate to be made: file name, who it is for, and what it may do.
struct Wanted {
    file: &'static str,
    user: &'static str,
    group: Option<&'static str>,
    usage: ExtendedKeyUsagePurpose,
    addresses: Vec<IpAddr>,
    names: &'static [&'static str],
}

impl Wanted {
    fn client(file: &'static str, user: &'static str, group: Option<&'static str>) -> Self {
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        Self { file, user, group, usage, addresses: Vec::new(), names: &[] }
    }

    fn server(
        file: &'static str,
        user: &'static str,
        addresses: Vec<IpAddr>,
        names: &'static [&'static str],
    ) -> Self {
        let usage = ExtendedKeyUsagePurpose::ServerAuth;
        Self { file, user, group: None, usage, addresses, names }
    }
}

/// Every certificate below the authority. Users and groups are those that Kubernetes' own roles
/// name ("Default roles and role bindings" in its documentation).
fn wanted() -> Vec<Wanted> {
    let api_names = &[
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    vec![
        Wanted::server(
            "apiserver",
            "kube-apiserver",
            vec![IpAddr::V4(NODE_IP), IpAddr::V4(SERVICE_API)],
            api_names,
        ),
        Wanted::server("kubelet-server", NODE_NAME, vec![IpAddr::V4(NODE_IP)], &[NODE_NAME]),
        Wanted::server("kafka", "kafka", vec![IpAddr::V4(NODE_IP)], &[]),
        Wanted::server("clickhouse", "clickhouse", vec![IpAddr::V4(NODE_IP)], &[]),
        Wanted::client("kubelet", "system:node:millrace", Some("system:nodes")),
        Wanted::client("kubelet-client", "kube-apiserver-kubelet-client", Some("system:masters")),
        Wanted::client("controller-manager", "system:kube-controller-manager", None),
        Wanted::client("scheduler", "system:kube-scheduler", None),
        Wanted::client("proxy", "system:kube-proxy", None),
        Wanted::client("admin", "millrace-admin", Some("system:masters")),
    ]
}

/// Makes the authority, the certificates and the key of service account tokens, unless they are
/// all there.
///
/// # Errors
/// When a key cannot be made or a file cannot be written.
pub(crate) fn write_pki(paths: &Paths) -> Result<()> {
    // Written last, so its presence says that everything before it is whole.
    let done = paths.pki("done");
    if done.exists() {
        return Ok(());
    }
    paths.state_dir("pki")?;
    let key = new_key("the authority")?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "millrace-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = params.self_signed(&key).map_err(certificate_error("the authority"))?;
    write_file(&paths.pki("ca.crt"), &authority.pem())?;
    write_file(&paths.pki("ca.key"), &key.serialize_pem())?;
    let issuer = Issuer::new(params, key);
    for wanted in wanted() {
        issue(paths, &issuer, &wanted)?;
    }
    let tokens = new_key("service accounts")?;
    write_file(&paths.pki("service-account.key"), &tokens.serialize_pem())?;
    write_file(&paths.pki("service-account.pub"), &tokens.public_key_pem())?;
    Ok(write_file(&done, "")?)
}

fn issue(paths: &Paths, issuer: &Issuer<'_, KeyPair>, wanted: &Wanted) -> Result<()> {
    let Wanted { file, user, group, usage, addresses, names } = wanted;
    let key = new_key(user)?;
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).map_err(certificate_error(user))?;
    params.subject_alt_names.extend(addresses.iter().map(|ip| SanType::IpAddress(*ip)));
    params.distinguished_name.push(DnType::CommonName, *user);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage.clone()];
    let certificate = params.signed_by(&key, issuer).map_err(certificate_error(user))?;
    write_file(&paths.pki(&format!("{file}.crt")), &certificate.pem())?;
    Ok(write_file(&paths.pki(&format!("{file}.key")), &key.serialize_pem())?)
}

fn new_key(subject: &str) -> Result<KeyPair> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(certificate_error(subject))
}

fn certificate_error(subject: &str) -> impl FnOnce(rcgen::Error) -> StackError {
    let subject = subject.to_owned();
    move |source| StackError::Certificate { subject, source }
}

/// Reads one of the files, for a kubeconfig that carries it.
pub(super) fn read(paths: &Paths, file: &str) -> Result<String> {
    let path = paths.pki(file);
    Ok(fs::read_to_string(&path).map_err(io_error(format!("read {}", path.display())))?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{read, wanted, write_pki};
    use crate::paths::Paths;

    /// A second call must not replace keys that a running cluster uses.
    #[test]
    fn keys_are_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().join("state"), folder.path().join("cache")).unwrap();
        write_pki(&paths).unwrap();
        let first = read(&paths, "ca.crt").unwrap();
        assert!(first.contains("BEGIN CERTIFICATE"), "{first}");
        write_pki(&paths).unwrap();
        assert_eq!(read(&paths, "ca.crt").unwrap(), first);
        let files: BTreeSet<&str> = wanted().iter().map(|wanted| wanted.file).collect();
        assert_eq!(files.len(), wanted().len(), "two certificates share a file");
        for file in files {
            assert!(read(&paths, &format!("{file}.key")).unwrap().contains("PRIVATE KEY"));
        }
    }

    /// Only root reads the keys, whatever the umask.
    #[test]
    fn keys_are_readable_by_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().join("state"), folder.path().join("cache")).unwrap();
        write_pki(&paths).unwrap();
        let mode = std::fs::metadata(paths.pki("ca.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
