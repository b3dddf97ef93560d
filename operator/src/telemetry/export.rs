//! The command-line options of the operator's own traces and logs, and the start of their export:
//! off without an endpoint.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ArgAction;
use millrace_ddl::{ClientError, ClientIdentity, Secret, TlsCertificates};
use millrace_observe::otlp::{self, Export, ExportSettings, TelemetryLayer};

/// Maximum size of a certificate file: a bundle of all authorities has 0.3 MB.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Own traces and logs.
#[derive(Clone, Debug, clap::Args)]
pub struct ExportArgs {
    /// Where the operator's own traces and logs are sent by OTLP over HTTP, as
    /// http://collector.monitoring:4318. Without it: nowhere.
    #[arg(long, env = "MILLRACE_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,

    /// A directory of headers for the requests with them: each file's name is a header's, its text
    /// the value, as a mounted Secret has them. Names are read at the start, values each time.
    #[arg(long, env = "MILLRACE_OTLP_HEADERS_DIRECTORY", requires = "otlp_endpoint")]
    pub otlp_headers_directory: Option<PathBuf>,

    /// A directory with the TLS files for https endpoints: ca.crt, the authorities to trust
    /// instead of the system's; tls.crt and tls.key, the client's certificate. All are optional.
    #[arg(long, env = "MILLRACE_OTLP_TLS_DIRECTORY", requires = "otlp_endpoint")]
    pub otlp_tls_directory: Option<PathBuf>,

    /// Traces of reconciles that are sent in a second at most.
    #[arg(
        long,
        env = "MILLRACE_OTLP_TRACES_PER_SECOND",
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(0..=1000)
    )]
    pub otlp_traces_per_second: u32,

    /// Of 100 reconciles, how many are traced at most.
    #[arg(
        long,
        env = "MILLRACE_OTLP_TRACES_PERCENT",
        default_value_t = 100,
        value_parser = clap::value_parser!(u8).range(1..=100)
    )]
    pub otlp_traces_percent: u8,

    /// Whether log lines are sent too: those that --log lets through.
    #[arg(long, env = "MILLRACE_OTLP_LOGS", default_value_t = true, action = ArgAction::Set)]
    pub otlp_logs: bool,

    /// An attribute of the resource, as deployment.environment.name=prod; may be given several
    /// times. Unless given, service.name is millrace-operator, service.instance.id the pod's.
    #[arg(long = "otlp-attribute", env = "MILLRACE_OTLP_ATTRIBUTES", value_delimiter = ',')]
    pub otlp_attributes: Vec<ResourceAttribute>,
}

/// A name and a value, `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceAttribute(pub String, pub String);

impl FromStr for ResourceAttribute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self(name.into(), value.into())),
            _ => Err(format!("{text:?} is not NAME=VALUE")),
        }
    }
}

/// Why the operator's own traces and logs can't be sent.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file or a directory can't be read.
    #[error("--otlp-headers-directory, --otlp-tls-directory: cannot read {}: {source}", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A certificate or key can't be used.
    #[error("--otlp-tls-directory: {0}")]
    Tls(#[from] ClientError),
    /// The export didn't start.
    #[error("--otlp-endpoint: {0}")]
    Start(#[from] otlp::StartError),
}

impl ExportArgs {
    /// Starts the export, if there is an endpoint; `instance` is this replica's name.
    ///
    /// # Errors
    /// Why it can't be started.
    pub fn start_export(
        &self,
        instance: &str,
    ) -> Result<Option<(Export, TelemetryLayer)>, ExportError> {
        let Some(endpoint) = &self.otlp_endpoint else { return Ok(None) };
        let settings = ExportSettings {
            endpoint: endpoint.clone(),
            headers: read_headers(self.otlp_headers_directory.as_deref())?,
            tls: read_tls(self.otlp_tls_directory.as_deref())?.client_config()?,
            resource: self.resource_attributes(instance),
            traces_per_second: self.otlp_traces_per_second,
            traces_percent: self.otlp_traces_percent,
            logs: self.otlp_logs,
        };
        Ok(Some(otlp::start_export(settings)?))
    }

    fn resource_attributes(&self, instance: &str) -> Vec<(String, String)> {
        let configured = self.otlp_attributes.iter();
        let configured =
            configured.map(|ResourceAttribute(name, value)| (name.clone(), value.clone()));
        otlp::resource_attributes(
            "millrace-operator",
            env!("CARGO_PKG_VERSION"),
            instance,
            configured,
        )
    }
}

/// Returns the headers' files, except hidden ones, which belong to the mount.
fn read_headers(directory: Option<&Path>) -> Result<Vec<(String, PathBuf)>, ExportError> {
    let Some(directory) = directory else { return Ok(Vec::new()) };
    let unread = |source| ExportError::File { path: directory.to_owned(), source };
    let mut headers = Vec::new();
    for entry in fs::read_dir(directory).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            headers.push((name, entry.path()));
        }
    }
    Ok(headers)
}

fn read_tls(directory: Option<&Path>) -> Result<TlsCertificates, ExportError> {
    let Some(directory) = directory else { return Ok(TlsCertificates::default()) };
    let read = |name: &str| -> Result<Option<Vec<u8>>, ExportError> {
        let path = directory.join(name);
        match fs::metadata(&path).map(|file| file.len() <= FILE_BYTES_MAX) {
            Ok(true) => {
                fs::read(&path).map(Some).map_err(|source| ExportError::File { path, source })
            }
            Ok(false) => {
                let source = std::io::Error::other(format!("over {FILE_BYTES_MAX} bytes"));
                Err(ExportError::File { path, source })
            }
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ExportError::File { path, source }),
        }
    };
    let identity = match (read("tls.crt")?, read("tls.key")?) {
        (Some(certificate_pem), Some(key)) => Some(ClientIdentity {
            certificate_pem,
            key_pem: Secret::new(String::from_utf8_lossy(&key)),
        }),
        _ => None,
    };
    Ok(TlsCertificates { ca_pem: read("ca.crt")?, identity })
}
