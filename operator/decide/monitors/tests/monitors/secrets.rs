//! Tests of keys of Secrets and ConfigMaps.

use std::collections::{BTreeMap, BTreeSet};

use millrace_monitors::MonitorKind::ServiceMonitor;
use millrace_monitors::{Holder, Namespaces, SECRETS_FOLDER, SecretUse};

use crate::monitors::cluster::{cluster, faults, monitor, scraped, scraped_within};

const SPEC: &str = r#"
    selector: {}
    endpoints:
      - port: http
        tlsConfig:
          ca: {configMap: {name: roots, key: ca.crt}}
          cert: {secret: {name: client, key: tls.crt}}
          keySecret: {name: client, key: tls.key}
        oauth2:
          clientId: {configMap: {name: client, key: id}}
          clientSecret: {name: client, key: secret}
          tokenUrl: https://sso.infra/token
          proxyUrl: http://proxy.infra:3128
          noProxy: 10.0.0.0/8, sso.infra
      - port: http
        basicAuth: {username: {name: user, key: u}, password: {name: user, key: p}}
      - port: http
        authorization: {type: Token, credentials: {name: token, key: t}}
      - port: http
        bearerTokenSecret: {name: token, key: t}
"#;

/// Scenario: every field that names a key. Guarantee: the settings have files in the folder for
/// them, and the keys are in the monitor's namespace.
#[test]
fn keys_become_files_and_lie_in_the_monitors_namespace() {
    let monitor = monitor(ServiceMonitor, SPEC);
    let used: BTreeSet<_> = monitor.secret_uses().cloned().collect();
    assert_eq!(used.len(), 8);
    assert!(used.iter().all(|used| used.namespace == "shop"));
    let names: BTreeSet<_> = used.iter().map(SecretUse::file_name).collect();
    assert_eq!(names.len(), 8);
    let scraped = scraped(&cluster(), vec![monitor]);
    assert_eq!(faults(&scraped), [""; 0]);
    let told = serde_json::to_string(&scraped.jobs).unwrap();
    for name in names {
        assert!(told.contains(&format!("\"{SECRETS_FOLDER}/{name}\"")), "{name}");
    }
    let oauth2 = scraped.jobs["serviceMonitor/shop/m/0"].oauth2.as_ref().unwrap();
    let proxy = oauth2.proxy.as_ref().unwrap();
    assert_eq!(
        (proxy.url.to_string().as_str(), proxy.no_proxy.len()),
        ("http://proxy.infra:3128/", 2)
    );
    let header = scraped.jobs["serviceMonitor/shop/m/2"].authorization.as_ref().unwrap();
    assert_eq!(header.r#type, "Token");
}

/// Scenario: a key that can't be read. Guarantee: the endpoints that name it are omitted, with the
/// field, the object and the reason; the others stay.
#[test]
fn a_missing_key_leaves_out_what_names_it() {
    let used = SecretUse {
        holder: Holder::Secret,
        namespace: "shop".to_owned(),
        name: "user".to_owned(),
        key: "p".to_owned(),
    };
    let missing = BTreeMap::from([(used, "there is no such key".to_owned())]);
    let monitors = vec![monitor(ServiceMonitor, SPEC)];
    let scraped = scraped_within(&cluster(), monitors, None, &Namespaces::Any, &missing);
    assert_eq!(scraped.jobs.len(), 3);
    assert_eq!(
        faults(&scraped),
        [
            "ServiceMonitor shop/m, spec.endpoints[1].basicAuth.password: key p of Secret shop/user: \
          there is no such key"
        ]
    );
}

/// Scenario: a monitor that writes a namespace next to a key, and two namespaces whose names and
/// keys join to one text. Guarantee: the namespace is reported as unknown or ignored, never used;
/// the files differ.
#[test]
fn no_monitor_names_another_namespaces_key() {
    let spec = "{selector: {}, endpoints: [{port: http, bearerTokenSecret: {name: token, key: t, \
                namespace: kube-system}}]}";
    let monitor = monitor(ServiceMonitor, spec);
    assert!(monitor.secret_uses().all(|used| used.namespace == "shop"));
    let used = |namespace: &str, name: &str| SecretUse {
        holder: Holder::Secret,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        key: "k".to_owned(),
    };
    assert_ne!(used("a", "bc").file_name(), used("ab", "c").file_name());
    let mut other = used("a", "bc");
    other.holder = Holder::ConfigMap;
    assert_ne!(used("a", "bc").file_name(), other.file_name());
}
