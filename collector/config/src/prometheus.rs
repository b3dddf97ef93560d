//! The section of targets that are scraped.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::check;
use crate::http_access::{Authorization, BasicAuth, HttpAccess, HttpTls, OAuth2, Proxy};
use crate::network::TargetAddress;
use crate::problem::{ConfigError, Problem};
use crate::relabel::RelabelRule;
use crate::section::section;
use crate::units::ByteSize;
use crate::url::Scheme;

section! {
    /// Targets that are scraped over HTTP, in Prometheus' formats.
    pub struct PrometheusReceiver {
        /// What is scraped, 1,000 jobs at most. At least one must be given, or `share`.
        pub jobs: Vec<ScrapeJob> = Vec::new(),
        /// Further jobs, as `scrape_configs` of a Prometheus file: the list, or a document with it.
        pub scrape_configs: String = String::new(),
        /// Given (`{}`) where jobs and targets come from this pod's share, which the operator
        /// writes: then no job is given here.
        pub share: Option<ScrapeShare> = None,
        /// Whether targets may have loopback and link-local addresses. Without it such a target is
        /// down, so that no list of targets reaches what only this machine should.
        pub allow_local_addresses: bool = false,
    }
}

/// That targets come from this pod's share. There is nothing to set.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct ScrapeShare {}

section! {
    /// Targets of one service.
    pub struct ScrapeJob {
        /// Its name: `service.name` of all its metrics. It must be given.
        pub name: String = String::new(),
        /// The targets, as `host:port`. One must be given, or one of `files` or `http`.
        pub targets: Vec<TargetAddress> = Vec::new(),
        /// Files with lists of targets (JSON or YAML), by path; the last component may have a `*`.
        /// 16 at most. They are read again when they change.
        pub files: Vec<String> = Vec::new(),
        /// Servers that answer with lists of targets (JSON); 16 at most.
        pub http: Vec<HttpTargets> = Vec::new(),
        /// The time from a target's scrape to its next one, in seconds.
        pub interval_seconds: u32 = 60,
        /// The time for a scrape, in seconds: `intervalSeconds` at most.
        pub timeout_seconds: u32 = 10,
        /// The path, with a query if there is one.
        pub path: String = "/metrics".to_owned(),
        /// How targets are spoken to.
        pub scheme: Scheme = Scheme::Http,
        /// Further parameters of the query, percent-encoded when they are sent.
        pub params: BTreeMap<String, Vec<String>> = BTreeMap::new(),
        /// TLS towards targets. Without it the system's authorities are trusted.
        pub tls: Option<HttpTls> = None,
        /// An `authorization` header from a file. Of it, `basicAuth` and `oauth2` one at most.
        pub authorization: Option<Authorization> = None,
        /// A user name and password.
        pub basic_auth: Option<BasicAuth> = None,
        /// A token by OAuth 2.0's client credentials.
        pub oauth2: Option<OAuth2> = None,
        /// The proxy that targets are asked through.
        pub proxy: Option<Proxy> = None,
        /// Whether redirects are followed.
        pub follow_redirects: bool = false,
        /// Rules for targets, applied to what is discovered of them, in order; 256 at most.
        pub relabel: Vec<RelabelRule> = Vec::new(),
        /// Rules for samples, applied to each one, in order; 256 at most.
        pub metric_relabel: Vec<RelabelRule> = Vec::new(),
        /// Labels of all points; 16 at most.
        pub labels: BTreeMap<String, String> = BTreeMap::new(),
        /// Where a scraped label has the name of one of `labels`, or is `job` or `instance`:
        /// whether it is kept. Otherwise it becomes `exported_NAME`.
        pub honor_labels: bool = false,
        /// Whether times in a body are kept. Otherwise its points have the scrape's time.
        pub honor_timestamps: bool = true,
        /// Whether targets are asked for the protobuf format, which alone has native histograms.
        /// Those become exponential histograms; targets without that format answer in text.
        pub native_histograms: bool = false,
        /// What a target may send.
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
            .map_err(|error| ConfigError::one(Problem::whole(error.to_string())))?;
        if job.name.is_empty() {
            name.clone_into(&mut job.name);
        }
        check::shared_job(&job)?;
        Ok(job)
    }

    /// How its targets are asked.
    #[must_use]
    pub fn access(&self) -> HttpAccess {
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
    pub fn exposed(&self) -> Option<&'static str> {
        let is_http = self.scheme == Scheme::Http;
        let token_url = self.oauth2.as_ref().map(|oauth2| oauth2.token_url.scheme());
        let token_proxy = self.oauth2.as_ref().and_then(|oauth2| oauth2.proxy.as_ref());
        let has_password = |proxy: &Proxy| proxy.basic_auth.is_some();
        if token_url == Some(Scheme::Http) {
            Some("oauth2.tokenUrl with http:// is sent the client's secret: write https://")
        } else if is_http && self.oauth2.is_some() {
            Some("scheme http sends oauth2's token as it is: write https")
        } else if is_http && self.authorization.is_some() {
            Some("scheme http sends authorization as it is: write https")
        } else if is_http && self.basic_auth.is_some() {
            Some("scheme http sends basicAuth's password as it is: write https")
        } else if self.proxy.as_ref().is_some_and(has_password) {
            Some("proxy.basicAuth's password goes to the proxy as it is")
        } else if token_proxy.is_some_and(has_password) {
            Some("oauth2.proxy.basicAuth's password goes to the proxy as it is")
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
    /// A server that answers with a list of targets.
    pub struct HttpTargets {
        /// The list's URL. It must be given. Credentials in it are refused.
        pub url: String = String::new(),
        /// The time from an answer to the next request, in seconds.
        pub refresh_seconds: u32 = 60,
    }
}

section! {
    /// What a target may send. A scrape that passes a limit fails.
    pub struct ScrapeLimits {
        /// The longest body, after decompression. It is never held whole.
        pub body_bytes: ByteSize = ByteSize::mib(256),
        /// Most samples of a scrape.
        pub samples: u32 = 1_000_000,
        /// Most labels of a sample.
        pub labels: u32 = 64,
    }
}
