//! The section of targets that are scraped.

#[cfg(test)]
pub(crate) mod arbitrary;
mod check;
pub(crate) mod http_access;
mod pasted;
pub(crate) mod relabel;
pub(crate) mod target_list;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::document::problem::{ConfigError, Problem};
use crate::document::section::section;
use crate::prometheus::http_access::{
    Authorization, BasicAuth, HttpAccess, HttpTls, OAuth2, Proxy,
};
use crate::prometheus::relabel::RelabelRule;
use crate::values::network::TargetAddress;
use crate::values::units::ByteSize;
use crate::values::url::Scheme;

section! {
    /// Targets scraped over HTTP in Prometheus' formats.
    pub struct PrometheusReceiver {
        /// Scrape jobs; at most 1,000. At least one, or `share`, is required.
        pub jobs: Vec<ScrapeJob> = Vec::new(),
        /// Additional jobs as text, in the syntax of Prometheus' `scrape_configs`: the list, or a
        /// document with it.
        pub scrape_configs: String = String::new(),
        /// Set to `{}` to read jobs and targets from this pod's share, which the operator writes.
        /// Can't be combined with jobs.
        pub share: Option<ScrapeShare> = None,
        /// Whether targets may have loopback and link-local addresses. Without it such targets are
        /// down, so that a target list can't reach services that only this machine should reach.
        pub allow_local_addresses: bool = false,
    }
}

/// Reads targets from this pod's share. It has no fields.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct ScrapeShare {}

section! {
    /// Targets of one service.
    pub struct ScrapeJob {
        /// Name of the job: `service.name` of its metrics. Required.
        pub name: String = String::new(),
        /// Targets as `host:port`. At least one, or one of `files` or `http`, is required.
        pub targets: Vec<TargetAddress> = Vec::new(),
        /// Files with target lists (JSON or YAML), by path; the last component may have a `*`. At
        /// most 16. Files are read again when they change.
        pub files: Vec<String> = Vec::new(),
        /// Servers of target lists (JSON); at most 16.
        pub http: Vec<HttpTargets> = Vec::new(),
        /// Time between the scrapes of a target, in seconds.
        pub interval_seconds: u32 = 60,
        /// Timeout of a scrape, in seconds; at most `intervalSeconds`.
        pub timeout_seconds: u32 = 10,
        /// Path of the metrics, optionally with a query.
        pub path: String = "/metrics".to_owned(),
        /// Protocol of the targets.
        pub scheme: Scheme = Scheme::Http,
        /// Additional query parameters, without percent-encoding.
        pub params: BTreeMap<String, Vec<String>> = BTreeMap::new(),
        /// TLS to targets. Without it, the system's CA certificates are trusted.
        pub tls: Option<HttpTls> = None,
        /// `Authorization` header from a file. Only one of `authorization`, `basicAuth` and
        /// `oauth2` can be set.
        pub authorization: Option<Authorization> = None,
        /// User name and password.
        pub basic_auth: Option<BasicAuth> = None,
        /// Token from OAuth 2.0 client credentials.
        pub oauth2: Option<OAuth2> = None,
        /// Proxy for connections to the targets.
        pub proxy: Option<Proxy> = None,
        /// Whether redirects are followed.
        pub follow_redirects: bool = false,
        /// Relabeling rules for discovered targets, applied in order; at most 256.
        pub relabel: Vec<RelabelRule> = Vec::new(),
        /// Relabeling rules for samples, applied in order; at most 256.
        pub metric_relabel: Vec<RelabelRule> = Vec::new(),
        /// Labels of all points; at most 16.
        pub labels: BTreeMap<String, String> = BTreeMap::new(),
        /// Whether a scraped label wins over one of `labels`, or over `job` or `instance`.
        /// Otherwise the scraped label is renamed to `exported_NAME`.
        pub honor_labels: bool = false,
        /// Whether timestamps in a body are used. Otherwise its points have the time of the scrape.
        pub honor_timestamps: bool = true,
        /// Whether to request the protobuf format, which alone has native histograms. They become
        /// exponential histograms; targets without the format answer in text.
        pub native_histograms: bool = false,
        /// Limits for targets.
        pub limits: ScrapeLimits = ScrapeLimits::default(),
    }
}

impl PrometheusReceiver {
    /// All its jobs, those that are pasted among them, as a collector would run them: for whoever
    /// shares their targets out.
    ///
    /// # Errors
    /// When a collector would refuse them: all that is wrong, by field.
    pub fn all_jobs(self) -> Result<Vec<ScrapeJob>, ConfigError> {
        check::all_jobs(self)
    }
}

impl ScrapeJob {
    /// A job of a share: its settings as JSON, without targets. `name` is its name where they have
    /// none.
    ///
    /// # Errors
    /// When the settings can't be read or used: all that is wrong with them.
    pub fn of_share(name: &str, settings: &serde_json::Value) -> Result<Self, ConfigError> {
        let mut job = Self::deserialize(settings)
            .map_err(|error| ConfigError::from_problem(Problem::of_document(error.to_string())))?;
        if job.name.is_empty() {
            name.clone_into(&mut job.name);
        }
        check::check_shared_job(&job)?;
        Ok(job)
    }

    /// Returns how its targets are requested.
    #[must_use]
    pub fn http_access(&self) -> HttpAccess {
        HttpAccess {
            tls: self.tls.clone(),
            authorization: self.authorization.clone(),
            basic_auth: self.basic_auth.clone(),
            oauth2: self.oauth2.clone(),
            proxy: self.proxy.clone(),
            follow_redirects: self.follow_redirects,
        }
    }

    /// Which of its settings send credentials in plaintext, if one does, and what to write.
    #[must_use]
    pub fn exposed_credentials(&self) -> Option<&'static str> {
        let is_http = self.scheme == Scheme::Http;
        let token_url = self.oauth2.as_ref().map(|oauth2| oauth2.token_url.scheme());
        let token_proxy = self.oauth2.as_ref().and_then(|oauth2| oauth2.proxy.as_ref());
        let has_password = |proxy: &Proxy| proxy.basic_auth.is_some();
        if token_url == Some(Scheme::Http) {
            Some(
                "the client secret is sent in plaintext to oauth2.tokenUrl over http://: use \
                 https://",
            )
        } else if is_http && self.oauth2.is_some() {
            Some("the oauth2 token is sent in plaintext over http://: use scheme https")
        } else if is_http && self.authorization.is_some() {
            Some("the authorization header is sent in plaintext over http://: use scheme https")
        } else if is_http && self.basic_auth.is_some() {
            Some("the basicAuth password is sent in plaintext over http://: use scheme https")
        } else if self.proxy.as_ref().is_some_and(has_password) {
            Some("the password of proxy.basicAuth is sent to the proxy in plaintext")
        } else if token_proxy.is_some_and(has_password) {
            Some("the password of oauth2.proxy.basicAuth is sent to the proxy in plaintext")
        } else {
            None
        }
    }

    /// The path with its query, and `params` after it.
    #[must_use]
    pub fn path_and_query(&self) -> String {
        path_and_query(&self.path, &self.params)
    }
}

/// A path, perhaps with a query, with further parameters behind.
#[must_use]
pub fn path_and_query(path: &str, params: &BTreeMap<String, Vec<String>>) -> String {
    let mut text = path.to_owned();
    for (name, value) in params.iter().flat_map(|(name, all)| all.iter().map(move |it| (name, it)))
    {
        text.push(if text.contains('?') { '&' } else { '?' });
        push_encoded(&mut text, name);
        text.push('=');
        push_encoded(&mut text, value);
    }
    text
}

/// Appends a text as a form has it: all bytes but RFC 3986's unreserved ones percent-encoded.
pub fn push_encoded(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            other => {
                out.push('%');
                for nibble in [other >> 4, other & 15] {
                    out.push(
                        char::from_digit(nibble.into(), 16).unwrap_or('0').to_ascii_uppercase(),
                    );
                }
            }
        }
    }
}

section! {
    /// Server of a target list.
    pub struct HttpTargets {
        /// URL of the list. Required. Credentials in it are refused.
        pub url: String = String::new(),
        /// Time between an answer and the next request, in seconds.
        pub refresh_seconds: u32 = 60,
    }
}

section! {
    /// Limits for targets. A scrape that exceeds a limit fails.
    pub struct ScrapeLimits {
        /// Longest body after decompression. It is never held in memory completely.
        pub body_bytes: ByteSize = ByteSize::mib(256),
        /// Maximum number of samples of a scrape.
        pub samples: u32 = 1_000_000,
        /// Maximum number of labels of a sample.
        pub labels: u32 = 64,
    }
}
