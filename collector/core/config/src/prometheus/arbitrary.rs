//! Settings of scraped targets, whatever they are.

use super::{HttpTargets, PrometheusReceiver, ScrapeJob, ScrapeLimits};
use crate::document::round_trip::{parsed, size};
use crate::prometheus::http_access::arbitrary::access;
use crate::prometheus::relabel::arbitrary::rule;
use crate::values::network::TargetAddress;
use crate::values::url::Scheme;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

pub(crate) fn prometheus() -> impl Strategy<Value = PrometheusReceiver> {
    let target = parsed::<TargetAddress>("[a-z][a-z0-9.-]{0,10}:[1-9][0-9]{0,3}");
    let targets = proptest::collection::vec(target, 0..3);
    let labels = proptest::collection::btree_map("[ -~]{0,6}", "[ -~é]{0,6}", 0..3);
    let limits = (size(), any::<[u32; 2]>());
    let texts = ("[ -~é]{0,10}", "/[ -~]{0,10}", targets, labels);
    let url = ("[ -~]{0,10}", any::<u32>());
    let url = url.prop_map(|(url, refresh_seconds)| HttpTargets { url, refresh_seconds });
    let files = proptest::collection::vec("/[ -~]{0,10}", 0..3);
    let rules = proptest::collection::vec(rule(), 0..3);
    let lists = (files, proptest::collection::vec(url, 0..3), rules);
    let texts = (texts, lists);
    let values = proptest::collection::vec("[ -~é]{0,6}", 0..3);
    let params = proptest::collection::btree_map("[ -~]{0,6}", values, 0..3);
    let request = (prop_oneof![Just(Scheme::Http), Just(Scheme::Https)], params, access().boxed());
    let job = (texts, request, any::<[u32; 2]>(), any::<[bool; 3]>(), limits).prop_map(
        |(
            ((name, path, targets, labels), (files, http, rules)),
            (scheme, params, access),
            seconds,
            honors,
            (body_bytes, most),
        )| ScrapeJob {
            scheme,
            params,
            tls: access.tls,
            authorization: access.authorization,
            basic_auth: access.basic_auth,
            oauth2: access.oauth2,
            proxy: access.proxy,
            follow_redirects: access.follow_redirects,
            name,
            targets,
            files,
            http,
            interval_seconds: seconds[0],
            timeout_seconds: seconds[1],
            path,
            relabel: rules.clone(),
            metric_relabel: rules,
            labels,
            honor_labels: honors[0],
            honor_timestamps: honors[1],
            native_histograms: honors[2],
            limits: ScrapeLimits { body_bytes, samples: most[0], labels: most[1] },
        },
    );
    (proptest::collection::vec(job, 0..3), any::<bool>()).prop_map(
        |(jobs, allow_local_addresses)| PrometheusReceiver {
            jobs,
            allow_local_addresses,
            ..PrometheusReceiver::default()
        },
    )
}
