//! Translates the spec's scraped targets to the collector's: the same settings, with references to
//! Secrets as file paths. Pure; records every path in [`SecretUses`]. Pods' own settings contain no
//! jobs or targets, which arrive with their shares.

use std::collections::BTreeMap;
use std::str::FromStr;

use millrace_config as config;
use millrace_crds::v1alpha1 as crds;
use millrace_scrape::relabel::{Rule, Rules};

use super::connection::{ca_file, certificate_files, secret_file};
use super::variants::same_variant;
use crate::error::Invalid;
use crate::pool::secrets::SecretUses;

/// Returns all jobs, including pasted ones.
///
/// # Errors
/// When the collector doesn't accept a value; the message names job and field.
pub fn build_jobs(
    spec: &crds::PrometheusReceiver,
    uses: &mut SecretUses,
) -> Result<Vec<config::ScrapeJob>, Invalid> {
    let crds::PrometheusReceiver {
        jobs,
        scrape_configs,
        assignment: _,
        kubernetes,
        allow_local_addresses: _,
    } = spec;
    if jobs.is_empty() && scrape_configs.is_empty() && kubernetes.is_some() {
        return Ok(Vec::new());
    }
    let jobs = jobs.iter().map(|spec| build_job(spec, uses));
    let receiver = config::PrometheusReceiver {
        jobs: jobs.collect::<Result<_, Invalid>>()?,
        scrape_configs: scrape_configs.clone(),
        ..config::PrometheusReceiver::default()
    };
    let jobs = receiver.all_jobs().map_err(|error| {
        Invalid::spec_invalid(format!("the collector would refuse its configuration: {error}"))
    })?;
    jobs.iter().try_for_each(check_rules)?;
    match jobs.iter().find(|job| !job.files.is_empty()) {
        Some(job) => Err(Invalid::spec_invalid(format!(
            "receivers.prometheus: {}: file_sd_configs: the operator assigns targets and has no \
             access to such files: write static_configs or http_sd_configs",
            job.name
        ))),
        None => Ok(jobs),
    }
}

/// Checks that the job's rules are usable, above all their patterns.
fn check_rules(job: &config::ScrapeJob) -> Result<(), Invalid> {
    for (field, rules) in [("relabel", &job.relabel), ("metricRelabel", &job.metric_relabel)] {
        let rules: Vec<_> = rules.iter().map(Rule::from).collect();
        Rules::new(&rules).map_err(|error| {
            let (position, fault) = (error.place, error.fault);
            let field = format!("receivers.prometheus.jobs: {}: {field}[{position}]", job.name);
            Invalid::spec_invalid(format!("{field}: {fault}"))
        })?;
    }
    Ok(())
}

/// Returns the pods' own settings. Jobs and targets arrive with their shares, so changed targets
/// cause no rollout. Records the Secrets of all jobs.
///
/// # Errors
/// As [`jobs`].
pub fn build_receiver(
    spec: &crds::PrometheusReceiver,
    uses: &mut SecretUses,
) -> Result<config::PrometheusReceiver, Invalid> {
    build_jobs(spec, uses)?;
    Ok(config::PrometheusReceiver {
        share: Some(config::ScrapeShare::default()),
        allow_local_addresses: spec.allow_local_addresses,
        ..config::PrometheusReceiver::default()
    })
}

fn build_job(spec: &crds::ScrapeJob, uses: &mut SecretUses) -> Result<config::ScrapeJob, Invalid> {
    let usual = config::ScrapeJob::default();
    let crds::ScrapeJob {
        name,
        targets,
        http,
        interval_seconds,
        timeout_seconds,
        path,
        scheme,
        params,
        tls: encryption,
        authorization: header,
        basic_auth,
        oauth2: token,
        proxy,
        follow_redirects,
        relabel,
        metric_relabel,
        native_histograms,
        labels,
        honor_labels,
        honor_timestamps,
        limits,
    } = spec;
    let targets = targets.iter().map(|target| parse_field(name, "targets", target));
    Ok(config::ScrapeJob {
        name: name.clone(),
        targets: targets.collect::<Result<_, _>>()?,
        interval_seconds: *interval_seconds,
        timeout_seconds: *timeout_seconds,
        path: path.clone().unwrap_or(usual.path),
        scheme: same_variant!(scheme, crds::ScrapeScheme => config::Scheme { Http, Https }),
        params: params.clone(),
        tls: encryption.as_ref().map(|it| build_tls(it, uses)).transpose()?,
        authorization: header.as_ref().map(|it| build_authorization(it, uses)).transpose()?,
        basic_auth: match basic_auth {
            Some(crds::ScrapeBasicAuth { credentials_secret: user }) => {
                Some(build_basic_auth(user, uses)?)
            }
            None => None,
        },
        oauth2: token.as_ref().map(|it| build_oauth2(name, it, uses)).transpose()?,
        proxy: proxy.as_ref().map(|it| build_proxy((name, "proxy"), it, uses)).transpose()?,
        follow_redirects: *follow_redirects,
        labels: labels.clone(),
        honor_labels: *honor_labels,
        honor_timestamps: *honor_timestamps,
        files: usual.files,
        http: http.iter().map(build_http_list).collect(),
        relabel: relabel.iter().map(build_rule).collect(),
        metric_relabel: metric_relabel.iter().map(build_rule).collect(),
        native_histograms: *native_histograms,
        limits: build_limits(limits, usual.limits),
    })
}

/// Returns the limits of a target, by default the collector's own.
fn build_limits(spec: &crds::ScrapeLimits, usual: config::ScrapeLimits) -> config::ScrapeLimits {
    let crds::ScrapeLimits { body_bytes, samples, labels } = spec;
    let body_bytes = body_bytes.as_ref().map(|it| config::ByteSize::bytes(it.bytes()));
    config::ScrapeLimits {
        body_bytes: body_bytes.unwrap_or(usual.body_bytes),
        samples: samples.unwrap_or(usual.samples),
        labels: labels.unwrap_or(usual.labels),
    }
}

fn build_http_list(spec: &crds::ScrapeHttpList) -> config::HttpTargets {
    let crds::ScrapeHttpList { url, refresh_seconds } = spec;
    config::HttpTargets { url: url.clone(), refresh_seconds: *refresh_seconds }
}

/// Translates a rule to the collector's settings.
pub(super) fn build_rule(spec: &crds::RelabelRule) -> config::RelabelRule {
    use crds::RelabelAction as Action;
    let crds::RelabelRule {
        action,
        source_labels,
        separator,
        regex,
        modulus,
        replacement,
        target_label,
    } = spec;
    let usual = config::RelabelRule::default();
    config::RelabelRule {
        action: same_variant!(action, Action => config::RelabelAction {
            Replace, Keep, Drop, KeepEqual, DropEqual, HashMod, LabelMap, LabelDrop, LabelKeep,
            Lowercase, Uppercase
        }),
        source_labels: source_labels.clone(),
        separator: separator.clone().unwrap_or(usual.separator),
        regex: regex.clone().unwrap_or(usual.regex),
        modulus: (*modulus).into(),
        replacement: replacement.clone().unwrap_or(usual.replacement),
        target_label: target_label.clone(),
    }
}

fn parse_field<T>(job: &str, field: &str, text: &str) -> Result<T, Invalid>
where
    T: FromStr<Err: std::fmt::Display>,
{
    let message_of = |error| format!("receivers.prometheus.jobs: {job}: {field}: {error}");
    text.parse().map_err(|error| Invalid::spec_invalid(message_of(error)))
}

fn build_tls(spec: &crds::ScrapeTls, uses: &mut SecretUses) -> Result<config::HttpTls, Invalid> {
    let crds::ScrapeTls { ca, certificate_secret, server_name, insecure_skip_verify } = spec;
    let ca_file = ca.as_ref().map(|ca| ca_file(uses, ca)).transpose()?;
    let pair = certificate_secret.as_ref().map(|pair| certificate_files(uses, pair)).transpose()?;
    let (cert_file, key_file) = pair.unzip();
    Ok(config::HttpTls {
        ca_file,
        cert_file,
        key_file,
        server_name: server_name.clone(),
        insecure_skip_verify: *insecure_skip_verify,
    })
}

fn build_authorization(
    spec: &crds::ScrapeAuthorization,
    uses: &mut SecretUses,
) -> Result<config::Authorization, Invalid> {
    let crds::ScrapeAuthorization { r#type: word, credentials_secret: token } = spec;
    Ok(config::Authorization {
        r#type: word.clone().unwrap_or_else(|| "Bearer".to_owned()),
        credentials_file: secret_file(uses, token.name.as_str(), token.key())?,
    })
}

fn build_basic_auth(
    user: &crds::CredentialsRef,
    uses: &mut SecretUses,
) -> Result<config::BasicAuth, Invalid> {
    Ok(config::BasicAuth {
        username: None,
        username_file: Some(secret_file(uses, user.name.as_str(), user.username_key())?),
        password_file: Some(secret_file(uses, user.name.as_str(), user.password_key())?),
    })
}

fn build_oauth2(
    job: &str,
    spec: &crds::ScrapeOAuth2,
    uses: &mut SecretUses,
) -> Result<config::OAuth2, Invalid> {
    let crds::ScrapeOAuth2 {
        credentials_secret: client,
        token_url,
        scopes,
        endpoint_params,
        tls: encryption,
        proxy,
    } = spec;
    Ok(config::OAuth2 {
        client_id: None,
        client_id_file: Some(secret_file(uses, client.name.as_str(), client.id_key())?),
        client_secret_file: secret_file(uses, client.name.as_str(), client.secret_key())?,
        token_url: parse_field(job, "oauth2.tokenUrl", token_url)?,
        scopes: scopes.clone(),
        endpoint_params: BTreeMap::clone(endpoint_params),
        tls: encryption.as_ref().map(|it| build_tls(it, uses)).transpose()?,
        proxy: proxy.as_ref().map(|it| build_proxy((job, "oauth2.proxy"), it, uses)).transpose()?,
    })
}

fn build_proxy(
    (job, field): (&str, &str),
    spec: &crds::ScrapeProxy,
    uses: &mut SecretUses,
) -> Result<config::Proxy, Invalid> {
    let crds::ScrapeProxy { url, credentials_secret: user, no_proxy } = spec;
    let no_proxy = no_proxy.iter().map(|host| parse_field(job, &format!("{field}.noProxy"), host));
    Ok(config::Proxy {
        url: parse_field(job, &format!("{field}.url"), url)?,
        basic_auth: user.as_ref().map(|user| build_basic_auth(user, uses)).transpose()?,
        no_proxy: no_proxy.collect::<Result<_, _>>()?,
    })
}
