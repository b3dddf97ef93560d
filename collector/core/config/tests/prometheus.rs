//! What is scraped: which settings make an edge, and what is said of those that can't be used.

use millrace_config::{CollectorMode, Config, ScrapeJob};
use serde_json::json;

fn edge(prometheus: &str, exporter: &str) -> String {
    format!(
        "receivers: {{prometheus: {prometheus}}}\n\
         exporters: {{kafka: {{connection: {{bootstrapServers: [k:1]}}{exporter}}}}}\n"
    )
}

/// Scenario: one job with no more than it needs. Guarantee: an edge, with Prometheus' own defaults.
#[test]
fn targets_make_an_edge() {
    let checked = Config::load(&edge("{jobs: [{name: node, targets: [n:9100]}]}", "")).unwrap();
    let CollectorMode::Edge { sources, .. } = checked.mode else { panic!("not an edge") };
    assert_eq!(sources.names(), ["prometheus"]);
    let prometheus = sources.prometheus.unwrap();
    let job = &prometheus.jobs[0];
    assert_eq!(
        (job.interval_seconds, job.timeout_seconds, job.path.as_str()),
        (60, 10, "/metrics")
    );
    assert!(!job.honor_labels && job.honor_timestamps && !prometheus.allow_local_addresses);
    assert!(!job.native_histograms);
}

/// Scenario: jobs that name lists alone. Guarantee: that is enough, and a list is read each minute.
#[test]
fn a_job_may_have_lists_alone() {
    let jobs = "{jobs: [{name: a, files: ['/lists/node-*.json', /lists/more.yml]}, \
                {name: b, http: [{url: 'https://lists.infra/x?y=z'}]}]}";
    let checked = Config::load(&edge(jobs, "")).unwrap();
    let CollectorMode::Edge { sources, .. } = checked.mode else { panic!("not an edge") };
    let jobs = sources.prometheus.unwrap().jobs;
    assert_eq!(jobs[0].files.len(), 2);
    assert_eq!(jobs[1].http[0].refresh_seconds, 60);
}

/// Scenario: settings that are wrong in one place each. Guarantee: the place is named, and what to
/// write.
#[test]
fn what_cannot_be_scraped_is_named() {
    for (job, said) in [
        ("{name: '', targets: [n:1]}", "receivers.prometheus.jobs[0].name: use a name of 1 to"),
        ("{name: a}", "receivers.prometheus.jobs[0].targets: no target is configured"),
        (
            "{name: a, targets: [n:1, n:1]}",
            "receivers.prometheus.jobs[0].targets[1]: `n:1` is a duplicate",
        ),
        ("{name: a, targets: ['http://n:1']}", "`http://n:1` is not a target"),
        (
            "{name: a, targets: [n:1], intervalSeconds: 0, timeoutSeconds: 1}",
            "receivers.prometheus.jobs[0].intervalSeconds: 0 is out of range",
        ),
        (
            "{name: a, targets: [n:1], intervalSeconds: 5}",
            "receivers.prometheus.jobs[0].timeoutSeconds: 10 is out of range: use 1 to 5",
        ),
        (
            "{name: a, targets: [n:1], path: m}",
            "receivers.prometheus.jobs[0].path: `m` is not a valid path",
        ),
        (
            "{name: a, files: ['/a/*/b.json']}",
            "receivers.prometheus.jobs[0].files[0]: `/a/*/b.json` is not a valid path of a target list",
        ),
        (
            "{name: a, files: ['/a/b.txt']}",
            ".files[0]: `/a/b.txt` is not a valid path of a target list",
        ),
        (
            "{name: a, files: ['/a/*b*.yml']}",
            ".files[0]: `/a/*b*.yml` is not a valid path of a target list",
        ),
        (
            "{name: a, http: [{url: 'ftp://h/x'}]}",
            "receivers.prometheus.jobs[0].http[0].url: `ftp://h/x` is not a valid HTTP URL",
        ),
        ("{name: a, http: [{url: 'http://u:p@h/x'}]}", ".http[0].url: a URL has a user name"),
        (
            "{name: a, http: [{url: 'http://h/x', refreshSeconds: 1}]}",
            ".http[0].refreshSeconds: 1 is out of range: use 5 to 86400",
        ),
        (
            "{name: a, targets: [n:1], labels: {a-b: c}}",
            "receivers.prometheus.jobs[0].labels: `a-b` is not a valid label name",
        ),
        (
            "{name: a, targets: [n:1], labels: {job: c}}",
            "receivers.prometheus.jobs[0].labels: `job` is set by the collector",
        ),
        (
            "{name: a, targets: [n:1], labels: {b: ''}}",
            "receivers.prometheus.jobs[0].labels: the value of `b`: use 1 to 256",
        ),
        (
            "{name: a, targets: [n:1], limits: {labels: 500}}",
            "receivers.prometheus.jobs[0].limits.labels: 500 is out of range: use 1 to 128",
        ),
        (
            "{name: a, targets: [n:1]}, {name: a, targets: [n:2]}",
            "receivers.prometheus.jobs[1].name: `a` is also the name of another job",
        ),
    ] {
        let error = Config::load(&edge(&format!("{{jobs: [{job}]}}"), "")).unwrap_err();
        assert!(error.to_string().contains(said), "{job}: {error}");
    }
    let error = Config::load(&edge("{}", "")).unwrap_err().to_string();
    assert!(error.contains("receivers.prometheus.jobs: no job is configured"), "{error}");
    let topics = ", topics: {traces: t}";
    let error = Config::load(&edge("{jobs: [{name: a, targets: [n:1]}]}", topics)).unwrap_err();
    assert!(error.to_string().contains("metrics have no topic"), "{error}");
    let many: Vec<_> = (0..10_001).map(|number| format!("n{number}:1")).collect();
    let job = format!("{{jobs: [{{name: a, targets: [{}]}}]}}", many.join(", "));
    let error = Config::load(&edge(&job, "")).unwrap_err().to_string();
    assert!(error.contains("10001 targets: use at most 10000"), "{error}");
}

/// Scenario: ways to ask targets that are wrong in one place each. Guarantee: the place is named, and
/// what to write; a password in a URL is not repeated.
#[test]
fn ways_to_ask_that_cannot_work_are_named() {
    const HEADER: &str = "authorization: {credentialsFile: /t}";
    let tokens =
        |more: &str| format!("oauth2: {{clientSecretFile: /s, tokenUrl: 'https://t/'{more}}}");
    for (more, said) in [
        (
            format!("{HEADER}, basicAuth: {{username: a}}"),
            "jobs[0].basicAuth: authorization and basicAuth are set: use only one",
        ),
        (
            format!("basicAuth: {{username: a}}, {}", tokens(", clientId: a")),
            "jobs[0].oauth2: basicAuth and oauth2 are set",
        ),
        ("authorization: {type: Basic, credentialsFile: /t}".into(), "Basic is not supported here"),
        (
            "authorization: {type: 'a b', credentialsFile: /t}".into(),
            "`a b` is not an authorization scheme",
        ),
        ("authorization: {credentialsFile: t}".into(), "`t` is not an absolute path"),
        ("basicAuth: {passwordFile: /p}".into(), "jobs[0].basicAuth: set either username or"),
        ("basicAuth: {username: 'a:b'}".into(), "jobs[0].basicAuth.username: use 1 to"),
        (tokens(""), "jobs[0].oauth2: set either clientId or clientIdFile"),
        (
            tokens(", clientId: a, endpointParams: {scope: b}"),
            "jobs[0].oauth2.endpointParams: `scope` is set by the collector",
        ),
        ("tls: {certFile: /c}".into(), "jobs[0].tls: certFile and keyFile must be set together"),
        ("tls: {serverName: 'a b'}".into(), "jobs[0].tls.serverName: `a b` is neither"),
        ("proxy: {url: 'https://p:1'}".into(), "jobs[0].proxy.url: use http://host:port"),
        ("proxy: {url: 'http://p:1/x'}".into(), "jobs[0].proxy.url: use http://host:port"),
        ("proxy: {url: 'http://me:hunter2@p'}".into(), "use files for credentials"),
        (
            "proxy: {url: 'http://p:1', noProxy: ['a b']}".into(),
            "`a b` is not a valid host for noProxy",
        ),
        ("scheme: ftp".into(), "unknown variant `ftp`"),
        ("params: {'': [a]}".into(), "jobs[0].params: name each parameter"),
    ] {
        let job = format!("{{jobs: [{{name: a, targets: ['n:1'], {more}}}]}}");
        let error = Config::load(&edge(&job, "")).unwrap_err().to_string();
        assert!(error.contains(said), "{job}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

/// Scenario: a path with a query, and parameters. Guarantee: one query, percent-encoded.
#[test]
fn parameters_follow_the_path() {
    let job = "{jobs: [{name: a, targets: ['n:1'], path: '/m?x=1', \
               params: {'match[]': ['{a=\"b c\"}', é], z: [y]}}]}";
    let checked = Config::load(&edge(job, "")).unwrap();
    let CollectorMode::Edge { sources, .. } = checked.mode else { panic!("not an edge") };
    let job = &sources.prometheus.unwrap().jobs[0];
    let wanted = "/m?x=1&match%5B%5D=%7Ba%3D%22b%20c%22%7D&match%5B%5D=%C3%A9&z=y";
    assert_eq!(job.path_and_query(), wanted);
    assert_eq!(job.exposed_credentials(), None);
}

/// Scenario: targets come from a share, alone and beside jobs. Guarantee: no job is wanted then; both
/// are refused; the document is written as it was read.
#[test]
fn targets_may_come_from_a_share() {
    let checked = Config::load(&edge("{share: {}}", "")).unwrap();
    let CollectorMode::Edge { sources, .. } = checked.mode else { panic!("not an edge") };
    let prometheus = sources.prometheus.unwrap();
    assert!(prometheus.share.is_some() && prometheus.jobs.is_empty());
    assert_eq!(serde_json::to_string(&prometheus).unwrap(), r#"{"share":{}}"#);
    let both = "{share: {}, jobs: [{name: a, targets: [n:1]}]}";
    let said = Config::load(&edge(both, "")).unwrap_err().to_string();
    assert!(said.contains("receivers.prometheus.share: share can't be combined"), "{said}");
    let said = Config::load(&edge("{share: {x: 1}}", "")).unwrap_err().to_string();
    assert!(said.contains("unknown field `x`"), "{said}");
}

/// Scenario: settings of a job in a share: with no more than it needs, with lists, with fields that
/// aren't known, out of bounds, or a share's own. Guarantee: the same bounds hold as for a job of the
/// settings, and its field is named.
#[test]
fn a_job_of_a_share_is_judged_as_any() {
    let job = ScrapeJob::of_share("node", &json!({"intervalSeconds": 15})).unwrap();
    assert_eq!((job.name.as_str(), job.interval_seconds), ("node", 15));
    let named = json!({"name": "other", "http": [{"url": "http://lists/x"}]});
    assert_eq!(ScrapeJob::of_share("node", &named).unwrap().name, "other");
    for (settings, said) in [
        (json!(null), "invalid type: null"),
        (json!({"intervals": 1}), "unknown field `intervals`"),
        (json!({"intervalSeconds": 0}), "intervalSeconds: 0 is out of range: use 1 to 3600"),
        (json!({"limits": {"labels": 500}}), "limits.labels: 500 is out of range"),
        (json!({"targets": ["n:1"]}), "targets: a job of a share takes its targets"),
        (json!({"files": ["/a.json"]}), "files: a job of a share takes its targets"),
    ] {
        let error = ScrapeJob::of_share("node", &settings).unwrap_err().to_string();
        assert!(error.starts_with(said), "{settings}: {error}");
    }
}

/// Scenario: a job of a Prometheus file with each field that docs/coming-from.md says vmagent has
/// alone or that must be written otherwise. Guarantee: it is refused, by its name.
#[test]
fn what_the_page_says_of_vmagents_fields_is_so() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/coming-from.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("\n| in a job | instead |\n| --- | --- |\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with("| `"));
    let fields: Vec<&str> = rows.map(|row| row.split('`').nth(1).unwrap()).collect();
    assert!(fields.len() >= 10, "{fields:?}");
    let pasted = |field: &str| {
        let job = "- job_name: a\n  static_configs: [{targets: ['a:1']}]\n";
        let text = json!(format!("{job}  {field}\n"));
        Config::load(&edge(&format!("{{scrapeConfigs: {text}}}"), "")).map(drop)
    };
    pasted("scrape_interval: 15s").unwrap();
    for field in fields {
        let said = pasted(field).unwrap_err().to_string();
        let name = field.split(':').next().unwrap();
        assert!(said.contains(name) && said.contains("line 3"), "{field}: {said}");
    }
}
