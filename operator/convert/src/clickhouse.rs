//! The ClickHouse exporter: where it is, its tables, log-in. Millrace speaks HTTP, so the native
//! protocol's addresses are translated and have to be looked at. Fields as of contrib 0.15x.

mod endpoint;

use millrace_crds::v1alpha1::{Attributes, CaRef, ClickHouseTls, Engine, Signal, TableSettings};
use millrace_crds::{ClickHouseEndpoint, DatabaseName, TablePrefix};

use crate::account::{Fate, Fields, by_name};
use crate::amounts;
use crate::draft::{credentials, fixed};
use crate::service::signal_path;
use crate::tls::{Places, tls};
use crate::tree::{Node, Text};
use crate::words;
use crate::work::Work;
use endpoint::Endpoint;

const USER_SECRET: &str = "clickhouse-user";
const CA_SECRET: &str = "clickhouse-ca";

const ENDPOINTS: &str = "spec.clickhouse.endpoints";
const CREDENTIALS: &str = "spec.clickhouse.credentialsSecretRef";
const DATABASE: &str = "spec.clickhouse.database";
const PREFIX: &str = "spec.clickhouse.tablePrefix";

/// The exporter's own database.
const DATABASE_USUAL: &str = "default";

/// What makes the Secret.
const MAKE_USER: &str =
    "create the Secret clickhouse-user in the pipeline's namespace: keys username and password";

const ONE_PLACE: &str = "a pipeline writes to one ClickHouse, database and set of tables, and \
     another exporter names others: make a second pipeline";

const OWN: [(&str, &str); 5] = [
    ("timeout", words::CLIENT),
    ("retry_on_failure", "what ClickHouse refuses for now is sent again"),
    ("sending_queue", words::QUEUES),
    ("compress", "inserts are compressed with lz4"),
    ("async_insert", "gateways make the batches; inserts are answered once they are stored"),
];

/// Tables of metrics: the exporter's name and what follows our prefix.
const METRICS: [(&str, &str); 5] = [
    ("gauge", "_metrics_gauge"),
    ("sum", "_metrics_sum"),
    ("summary", "_metrics_summary"),
    ("histogram", "_metrics_histogram"),
    ("exponential_histogram", "_metrics_exponential_histogram"),
];

/// Converts the exporter, in pipelines of these signals.
pub(crate) fn exporter(work: &mut Work, node: &Node<'_>, signals: &[Signal]) -> bool {
    let mut fields = work.account.open(node, Fate::carried("spec.clickhouse"));
    let in_endpoint = fields.take("endpoint").and_then(|node| address(work, &node));
    database(work, &mut fields, in_endpoint);
    let mut asked = false;
    for name in ["username", "password"] {
        let Some(field) = fields.take(name) else { continue };
        asked = true;
        work.account.fill_in(&field, CREDENTIALS, MAKE_USER);
    }
    if asked {
        work.draft.clickhouse.credentials_secret_ref = credentials(USER_SECRET);
    }
    if let Some(encryption) = fields.take("tls") {
        encrypt(work, &encryption);
    }
    tables(work, &mut fields);
    retention(work, &mut fields, signals);
    attributes(work, &mut fields, signals);
    if let Some(engine) = fields.take("table_engine") {
        engines(work, &engine, signals);
    }
    if let Some(cluster) = fields.take("cluster_name") {
        let to = "spec.clickhouse.cluster";
        match work.account.text(&cluster, to).as_deref().map(str::parse) {
            Some(Ok(name)) => {
                work.draft.clickhouse.cluster = Some(name);
                work.account.carried(&cluster, to);
            }
            Some(Err(error)) => work.account.left(&cluster, error.says),
            None => {}
        }
    }
    work.account.rest(fields, |name| match name {
        "create_schema" => Fate::not_needed(
            "the operator makes what is missing and changes what only adds; clickhouse-ddl plan \
             tells it before",
        ),
        "connection_params" => Fate::left(
            "gateways set what an insert needs; settings of the user are ClickHouse's: put them \
             into its profile",
        ),
        "profiles_table_name" => Fate::left("profiles are not stored"),
        name => by_name(&OWN, words::UNKNOWN)(name),
    });
    true
}

/// The address, and the database that it names.
fn address(work: &mut Work, node: &Node<'_>) -> Option<String> {
    let what = "ClickHouse's HTTP interface, http://host:8123 or https://host:8443";
    let read = match node.text() {
        Text::Variable => None,
        Text::Not => {
            work.account.fill_in(node, ENDPOINTS, what);
            return None;
        }
        Text::Said(text) => Endpoint::read(&text),
    };
    let Some(read) = read else {
        work.account.fill_in(node, ENDPOINTS, what);
        return None;
    };
    let before = &work.draft.clickhouse.endpoints;
    if !before.is_empty() && *before != read.http {
        work.account.left(node, ONE_PLACE);
        return None;
    }
    work.draft.clickhouse.endpoints.clone_from(&read.http);
    if read.has_user {
        work.draft.clickhouse.credentials_secret_ref = credentials(USER_SECRET);
        work.account.missing(CREDENTIALS, MAKE_USER);
    }
    let parameters = (!read.parameters.is_empty())
        .then(|| format!("its parameters ({}) are not carried over", read.parameters.join(", ")));
    match (read.is_native, parameters) {
        (true, parameters) => {
            let more = parameters.map(|text| format!("; {text}")).unwrap_or_default();
            let what = format!("look at host and port: HTTP's, not the native protocol's{more}");
            work.account.fill_in(node, ENDPOINTS, what);
        }
        (false, Some(but)) => work.account.differs(node, ENDPOINTS, but),
        (false, None) => work.account.carried(node, ENDPOINTS),
    }
    read.database
}

fn database(work: &mut Work, fields: &mut Fields<'_>, in_endpoint: Option<String>) {
    let written = fields.take("database");
    let said = match &written {
        None => None,
        Some(node) => match work.account.text(node, DATABASE) {
            Some(text) => Some(text),
            // Accounted for: it is to be filled in.
            None => return put_database(work, None, DATABASE_USUAL),
        },
    };
    // As the exporter has it: its own field, unless that says what is usual.
    let name = match (&said, in_endpoint) {
        (Some(name), Some(inner)) if name == DATABASE_USUAL => inner,
        (Some(name), _) => name.clone(),
        (None, inner) => inner.unwrap_or_else(|| DATABASE_USUAL.to_owned()),
    };
    put_database(work, written.as_ref(), &name);
}

fn put_database(work: &mut Work, node: Option<&Node<'_>>, name: &str) {
    let now = &mut work.draft.clickhouse.database;
    let asked = name.parse::<DatabaseName>();
    let fate = match (&now, asked) {
        (_, Err(error)) => Fate::left(error.says),
        (Some(other), Ok(asked)) if *other != asked => Fate::left(ONE_PLACE),
        (_, Ok(asked)) => {
            *now = Some(asked);
            Fate::carried(DATABASE)
        }
    };
    if let Some(node) = node {
        work.account.put(node, fate);
    }
}

fn encrypt(work: &mut Work, node: &Node<'_>) {
    let is_https = |it: &ClickHouseEndpoint| it.as_str().starts_with("https://");
    let encrypted = work.draft.clickhouse.endpoints.iter().all(is_https);
    if !encrypted || work.draft.clickhouse.endpoints.is_empty() {
        let _ = tls(work, node, ENDPOINTS, Places::default());
        return;
    }
    let authority = Some(("spec.clickhouse.tls.caSecretRef", CA_SECRET));
    let asked = tls(work, node, ENDPOINTS, Places { authority, ..Places::default() });
    if asked.authority {
        let ca_secret_ref = fixed(CA_SECRET).map(|name| CaRef { name, key: None });
        work.draft.clickhouse.tls = Some(ClickHouseTls { ca_secret_ref });
    }
}

/// Tables' names: they have one prefix, or are left.
fn tables(work: &mut Work, fields: &mut Fields<'_>) {
    let mut named: Vec<(Node<'_>, &str)> = Vec::new();
    for (name, suffix) in [
        ("traces_table_name", "_traces"),
        ("logs_table_name", "_logs"),
        ("metrics_table_name", "_metrics"),
    ] {
        named.extend(fields.take(name).map(|node| (node, suffix)));
    }
    if let Some(node) = fields.take("metrics_tables") {
        let mut each = work.account.open(&node, Fate::not_needed("tables have one prefix"));
        for (name, suffix) in METRICS {
            let Some(table) = each.take(name) else { continue };
            match table.get("name") {
                None => named.push((table, suffix)),
                Some(_) => {
                    let mut inner =
                        work.account.open(&table, Fate::not_needed("tables have one prefix"));
                    named.extend(inner.take("name").map(|node| (node, suffix)));
                    work.account.rest(inner, |_| Fate::left(words::UNKNOWN));
                }
            }
        }
        work.account.rest(each, |_| Fate::left(words::UNKNOWN));
    }
    for (node, suffix) in named {
        table(work, &node, suffix);
    }
}

fn table(work: &mut Work, node: &Node<'_>, suffix: &str) {
    let Some(name) = work.account.text(node, PREFIX) else { return };
    // The exporter's own name of that table; its rows stay there.
    let is_short = name.ends_with("_metrics_exp_histogram");
    let prefix = match is_short && suffix.ends_with("exponential_histogram") {
        true => name.strip_suffix("_metrics_exp_histogram"),
        false => name.strip_suffix(suffix),
    };
    let now = &mut work.draft.clickhouse.table_prefix;
    match prefix.and_then(|text| text.parse::<TablePrefix>().ok()) {
        Some(prefix) if now.as_ref().is_none_or(|now| *now == prefix) => {
            *now = Some(prefix);
            match is_short {
                true => work.account.differs(
                    node,
                    PREFIX,
                    "ours ends in _metrics_exponential_histogram; the other stays, with its rows",
                ),
                false => work.account.carried(node, PREFIX),
            }
        }
        _ => work.account.left(
            node,
            format!("tables are named PREFIX{suffix} with one prefix: copy its rows, or rename it"),
        ),
    }
}

/// The tables of these signals, each with its path.
fn each_table(
    work: &mut Work,
    signals: &[Signal],
    mut change: impl FnMut(Signal, &mut TableSettings),
) -> String {
    let mut paths = Vec::new();
    for signal in signals {
        if let Some(settings) = work.draft.signal(*signal) {
            change(*signal, &mut settings.table);
            paths.push(signal_path(*signal));
        }
    }
    // One of them stands for all in the list.
    paths.into_iter().next().unwrap_or_default()
}

fn retention(work: &mut Work, fields: &mut Fields<'_>, signals: &[Signal]) {
    for (name, factor) in [("ttl", None), ("ttl_days", Some(86_400))] {
        let Some(node) = fields.take(name) else { continue };
        let place = signals.first().map(|first| format!("{}.table.ttl", signal_path(*first)));
        let place = place.unwrap_or_default();
        let Some(text) = work.account.text(&node, &place) else { continue };
        let seconds = match factor {
            Some(factor) => text.parse::<u64>().ok().and_then(|days| days.checked_mul(factor)),
            None => amounts::seconds(&text),
        };
        match seconds {
            Some(0) => work.account.not_needed(&node, "rows are kept without end"),
            Some(seconds) => match amounts::period(seconds) {
                None => work.account.left(&node, "write a whole number of s, m, h or d"),
                Some(period) => {
                    let put = |_, table: &mut TableSettings| table.ttl = Some(period.clone());
                    let to = each_table(work, signals, put);
                    work.account.carried(&node, format!("{to}.table.ttl"));
                }
            },
            None => work.account.left(&node, "write a whole number of s, m, h or d"),
        }
    }
}

/// JSON or Map: what the exporter's tables have. Older versions asked for it by a feature gate,
/// which is no part of the file.
fn attributes(work: &mut Work, fields: &mut Fields<'_>, signals: &[Signal]) {
    let written = fields.take("json");
    let asked = match written.as_ref().is_some_and(Node::is_true) {
        true => Attributes::Json,
        false => Attributes::Map,
    };
    let others = work.draft.signals.iter().find_map(|(signal, settings)| {
        settings.table.attributes.filter(|_| !signals.contains(&signal))
    });
    if others.is_some_and(|other| other != asked) {
        if let Some(node) = written {
            let instead = "all signals of a pipeline store attributes one way: make a second one";
            work.account.left(&node, instead);
        }
        return;
    }
    let to = each_table(work, signals, |_, table| table.attributes = Some(asked));
    if let Some(node) = written {
        work.account.carried(&node, format!("{to}.table.attributes"));
    }
}

fn engines(work: &mut Work, node: &Node<'_>, signals: &[Signal]) {
    let mut fields = work.account.open(node, Fate::not_needed("it is MergeTree"));
    if let Some(name) = fields.take("name") {
        let engine = match name.said().as_deref() {
            Some("MergeTree") => Some(Engine::MergeTree),
            Some("ReplicatedMergeTree") => Some(Engine::ReplicatedMergeTree),
            Some("ReplacingMergeTree") => Some(Engine::ReplacingMergeTree),
            Some("ReplicatedReplacingMergeTree") => Some(Engine::ReplicatedReplacingMergeTree),
            _ => None,
        };
        let replaces = matches!(
            engine,
            Some(Engine::ReplacingMergeTree | Engine::ReplicatedReplacingMergeTree)
        );
        match engine {
            Some(_) if replaces && signals != [Signal::Traces] => work.account.left(
                &name,
                "a Replacing engine would lose rows that merely look alike: use it for traces only",
            ),
            Some(engine) => {
                let to = each_table(work, signals, |_, table| table.engine = engine);
                work.account.carried(&name, format!("{to}.table.engine"));
            }
            None => work.account.left(
                &name,
                "the engines are MergeTree, ReplicatedMergeTree and their Replacing ones; with \
                 SharedMergeTree write MergeTree",
            ),
        }
    }
    work.account.rest(fields, |name| match name {
        "params" => Fate::left(
            "path and replica of replicated tables: write table.replication if they aren't \
             /clickhouse/tables/{shard} and {replica}",
        ),
        _ => Fate::left(words::UNKNOWN),
    });
}
