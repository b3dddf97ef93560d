//! Converts the ClickHouse exporter: address, tables, credentials. Millrace uses HTTP, so addresses
//! of the native protocol are translated and marked for a check. Fields as of contrib 0.15x.

mod endpoint;

use millrace_crds::v1alpha1::{
    Attributes, CaSource, ClickHouseAuthentication, ClickHouseTls, Engine, PasswordSecret, Signal,
    TableSettings, TableTtl,
};
use millrace_crds::{ClickHouseEndpoint, DatabaseName, TablePrefix};

use crate::account::{Fate, Fields, by_name};
use crate::advice;
use crate::amounts;
use crate::components::tls::{TlsTargets, account_tls};
use crate::draft::checked_name;
use crate::service::signal_path;
use crate::tree::{Node, TextValue};
use crate::work::Work;
use endpoint::ParsedEndpoint;

const USER_SECRET: &str = "clickhouse-user";
const CA_SECRET: &str = "clickhouse-ca";

const ENDPOINTS: &str = "spec.clickhouse.endpoints";
const CREDENTIALS: &str = "spec.clickhouse.authentication";
const DATABASE: &str = "spec.clickhouse.database";
const PREFIX: &str = "spec.clickhouse.tablePrefix";

/// The exporter's default database.
const DATABASE_USUAL: &str = "default";

/// How to create the Secret.
const MAKE_USER: &str =
    "create the Secret clickhouse-user in the pipeline's namespace: keys username and password";

const ONE_DESTINATION: &str = "a pipeline writes to one ClickHouse, database and set of tables, and \
                         another exporter names others: create a second pipeline";

const FIXED_SETTINGS: [(&str, &str); 5] = [
    ("timeout", advice::CLIENT),
    ("retry_on_failure", "rejected inserts are retried"),
    ("sending_queue", advice::QUEUES),
    ("compress", "inserts are compressed with lz4"),
    ("async_insert", "gateways batch; inserts are acknowledged once they are stored"),
];

/// Tables of metrics: the exporter's name and the suffix after Millrace's prefix.
const METRICS: [(&str, &str); 5] = [
    ("gauge", "_metrics_gauge"),
    ("sum", "_metrics_sum"),
    ("summary", "_metrics_summary"),
    ("histogram", "_metrics_histogram"),
    ("exponential_histogram", "_metrics_exponential_histogram"),
];

/// Converts the exporter, in pipelines of these signals.
pub(crate) fn convert_exporter(work: &mut Work, node: &Node<'_>, signals: &[Signal]) -> bool {
    let mut fields = work.account.open_block(node, Fate::carried("spec.clickhouse"));
    let in_endpoint = fields.take_field("endpoint").and_then(|node| convert_address(work, &node));
    convert_database(work, &mut fields, in_endpoint);
    let mut is_requested = false;
    for name in ["username", "password"] {
        let Some(field) = fields.take_field(name) else { continue };
        is_requested = true;
        work.account.fill_in(&field, CREDENTIALS, MAKE_USER);
    }
    if is_requested {
        work.draft.clickhouse.authentication = password_login();
    }
    if let Some(encryption) = fields.take_field("tls") {
        convert_tls(work, &encryption);
    }
    convert_tables(work, &mut fields);
    convert_retention(work, &mut fields, signals);
    convert_attributes(work, &mut fields);
    if let Some(engine) = fields.take_field("table_engine") {
        convert_engine(work, &engine, signals);
    }
    if let Some(cluster) = fields.take_field("cluster_name") {
        let to = "spec.clickhouse.cluster";
        match work.account.require_text(&cluster, to).as_deref().map(str::parse) {
            Some(Ok(name)) => {
                work.draft.clickhouse.cluster = Some(name);
                work.account.carried(&cluster, to);
            }
            Some(Err(error)) => work.account.unsupported(&cluster, error.says),
            None => {}
        }
    }
    work.account.account_remaining(fields, |name| match name {
        "create_schema" => Fate::not_needed(
            "the operator creates missing tables and applies additive changes; clickhouse-ddl plan \
             shows them before",
        ),
        "connection_params" => Fate::unsupported(
            "gateways set what an insert needs: put other settings into the user's profile in \
             ClickHouse",
        ),
        "profiles_table_name" => Fate::unsupported("profiles are not stored"),
        name => by_name(&FIXED_SETTINGS, advice::UNKNOWN)(name),
    });
    true
}

/// Converts the address, and returns the database that it names.
fn convert_address(work: &mut Work, node: &Node<'_>) -> Option<String> {
    let what = "ClickHouse's HTTP interface, http://host:8123 or https://host:8443";
    let read = match node.scalar_text() {
        TextValue::Variable => None,
        TextValue::Not => {
            work.account.fill_in(node, ENDPOINTS, what);
            return None;
        }
        TextValue::Plain(text) => ParsedEndpoint::read(&text),
    };
    let Some(read) = read else {
        work.account.fill_in(node, ENDPOINTS, what);
        return None;
    };
    let before = &work.draft.clickhouse.endpoints;
    if !before.is_empty() && *before != read.http {
        work.account.unsupported(node, ONE_DESTINATION);
        return None;
    }
    work.draft.clickhouse.endpoints.clone_from(&read.http);
    if read.has_user {
        work.draft.clickhouse.authentication = password_login();
        work.account.missing(CREDENTIALS, MAKE_USER);
    }
    let parameters = (!read.parameters.is_empty())
        .then(|| format!("its parameters ({}) are not carried over", read.parameters.join(", ")));
    match (read.is_native, parameters) {
        (true, parameters) => {
            let more = parameters.map(|text| format!("; {text}")).unwrap_or_default();
            let what = format!("check host and port: they must be the HTTP interface's{more}");
            work.account.fill_in(node, ENDPOINTS, what);
        }
        (false, Some(but)) => work.account.differs(node, ENDPOINTS, but),
        (false, None) => work.account.carried(node, ENDPOINTS),
    }
    read.database
}

fn convert_database(work: &mut Work, fields: &mut Fields<'_>, in_endpoint: Option<String>) {
    let written = fields.take_field("database");
    let in_field = match &written {
        None => None,
        Some(node) => match work.account.require_text(node, DATABASE) {
            Some(text) => Some(text),
            // The value has its entry: the user fills it in.
            None => return put_database(work, None, DATABASE_USUAL),
        },
    };
    // As in the exporter: its own field wins, unless that has the default.
    let name = match (&in_field, in_endpoint) {
        (Some(name), Some(inner)) if name == DATABASE_USUAL => inner,
        (Some(name), _) => name.clone(),
        (None, inner) => inner.unwrap_or_else(|| DATABASE_USUAL.to_owned()),
    };
    put_database(work, written.as_ref(), &name);
}

fn put_database(work: &mut Work, node: Option<&Node<'_>>, name: &str) {
    let now = &mut work.draft.clickhouse.database;
    let requested = name.parse::<DatabaseName>();
    let fate = match (&now, requested) {
        (_, Err(error)) => Fate::unsupported(error.says),
        (Some(other), Ok(requested)) if *other != requested => Fate::unsupported(ONE_DESTINATION),
        (_, Ok(requested)) => {
            *now = Some(requested);
            Fate::carried(DATABASE)
        }
    };
    if let Some(node) = node {
        work.account.add_entry(node, fate);
    }
}

/// Returns the authentication by a Secret that has to be created.
fn password_login() -> Option<ClickHouseAuthentication> {
    PasswordSecret::of_name(USER_SECRET)
        .map(|secret| ClickHouseAuthentication::of_password(&secret))
}

fn convert_tls(work: &mut Work, node: &Node<'_>) {
    let is_https = |it: &ClickHouseEndpoint| it.as_str().starts_with("https://");
    let encrypted = work.draft.clickhouse.endpoints.iter().all(is_https);
    if !encrypted || work.draft.clickhouse.endpoints.is_empty() {
        let _ = account_tls(work, node, ENDPOINTS, TlsTargets::default());
        return;
    }
    let authority = Some(("spec.clickhouse.tls.ca", CA_SECRET));
    let requested =
        account_tls(work, node, ENDPOINTS, TlsTargets { authority, ..TlsTargets::default() });
    if requested.authority {
        let ca = checked_name(CA_SECRET).map(CaSource::of_secret);
        work.draft.clickhouse.tls = Some(ClickHouseTls { ca });
    }
}

/// Converts tables' names: they share one prefix, or are unsupported.
fn convert_tables(work: &mut Work, fields: &mut Fields<'_>) {
    let mut named: Vec<(Node<'_>, &str)> = Vec::new();
    for (name, suffix) in [
        ("traces_table_name", "_traces"),
        ("logs_table_name", "_logs"),
        ("metrics_table_name", "_metrics"),
    ] {
        named.extend(fields.take_field(name).map(|node| (node, suffix)));
    }
    if let Some(node) = fields.take_field("metrics_tables") {
        let mut each = work.account.open_block(&node, Fate::not_needed("tables have one prefix"));
        for (name, suffix) in METRICS {
            let Some(table) = each.take_field(name) else { continue };
            match table.get("name") {
                None => named.push((table, suffix)),
                Some(_) => {
                    let mut inner =
                        work.account.open_block(&table, Fate::not_needed("tables have one prefix"));
                    named.extend(inner.take_field("name").map(|node| (node, suffix)));
                    work.account.account_remaining(inner, |_| Fate::unsupported(advice::UNKNOWN));
                }
            }
        }
        work.account.account_remaining(each, |_| Fate::unsupported(advice::UNKNOWN));
    }
    for (node, suffix) in named {
        convert_table(work, &node, suffix);
    }
}

fn convert_table(work: &mut Work, node: &Node<'_>, suffix: &str) {
    let Some(name) = work.account.require_text(node, PREFIX) else { return };
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
                    "Millrace's ends in _metrics_exponential_histogram; the other stays, with its \
                     rows",
                ),
                false => work.account.carried(node, PREFIX),
            }
        }
        _ => work.account.unsupported(
            node,
            format!("tables are named PREFIX{suffix} with one prefix: copy its rows, or rename it"),
        ),
    }
}

/// Returns the tables of these signals, each with its path.
fn each_table(
    work: &mut Work,
    signals: &[Signal],
    mut change: impl FnMut(Signal, &mut TableSettings),
) -> String {
    let mut paths = Vec::new();
    for signal in signals {
        if let Some(settings) = work.draft.signal_settings(*signal) {
            change(*signal, &mut settings.table);
            paths.push(signal_path(*signal));
        }
    }
    // One entry covers the complete list.
    paths.into_iter().next().unwrap_or_default()
}

/// Converts the retention. If none is set, the exporter retains rows forever, unlike a pipeline.
fn convert_retention(work: &mut Work, fields: &mut Fields<'_>, signals: &[Signal]) {
    each_table(work, signals, |_, table| table.ttl = Some(TableTtl::Forever));
    for (name, factor) in [("ttl", None), ("ttl_days", Some(86_400))] {
        let Some(node) = fields.take_field(name) else { continue };
        let path = signals.first().map(|first| format!("{}.table.ttl", signal_path(*first)));
        let path = path.unwrap_or_default();
        let Some(text) = work.account.require_text(&node, &path) else { continue };
        let seconds = match factor {
            Some(factor) => text.parse::<u64>().ok().and_then(|days| days.checked_mul(factor)),
            None => amounts::parse_seconds(&text),
        };
        match seconds {
            Some(0) => work.account.carried(&node, path),
            Some(seconds) => match amounts::to_period(seconds) {
                None => work.account.unsupported(&node, "write a whole number of s, m, h or d"),
                Some(period) => {
                    let ttl = TableTtl::After(period);
                    each_table(work, signals, |_, table| table.ttl = Some(ttl.clone()));
                    work.account.carried(&node, path);
                }
            },
            None => work.account.unsupported(&node, "write a whole number of s, m, h or d"),
        }
    }
}

/// Converts JSON or Map, the types of the exporter's attribute columns. Older versions set it by a
/// feature gate, which is not in the file.
fn convert_attributes(work: &mut Work, fields: &mut Fields<'_>) {
    let written = fields.take_field("json");
    let requested = match written.as_ref().is_some_and(Node::is_true) {
        true => Attributes::Json,
        false => Attributes::Map,
    };
    let table = &mut work.draft.defaults.table;
    if table.attributes.is_some_and(|other| other != requested) {
        if let Some(node) = written {
            let instead = "all signals of a pipeline store attributes the same way: create a \
                           second one";
            work.account.unsupported(&node, instead);
        }
        return;
    }
    table.attributes = Some(requested);
    if let Some(node) = written {
        work.account.carried(&node, "spec.signals.defaults.table.attributes");
    }
}

fn convert_engine(work: &mut Work, node: &Node<'_>, signals: &[Signal]) {
    let mut fields = work.account.open_block(node, Fate::not_needed("it is MergeTree"));
    if let Some(name) = fields.take_field("name") {
        let engine = match name.plain_text().as_deref() {
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
            Some(_) if replaces && signals != [Signal::Traces] => work.account.unsupported(
                &name,
                "a Replacing engine would lose similar rows: use it for traces only",
            ),
            Some(engine) => {
                let to = each_table(work, signals, |_, table| table.engine = Some(engine));
                work.account.carried(&name, format!("{to}.table.engine"));
            }
            None => work.account.unsupported(
                &name,
                "the engines are MergeTree, ReplicatedMergeTree and their Replacing ones; with \
                 SharedMergeTree write MergeTree",
            ),
        }
    }
    work.account.account_remaining(fields, |name| match name {
        "params" => Fate::unsupported(
            "path and replica of replicated tables: write table.replication if they aren't \
             /clickhouse/tables/{shard} and {replica}",
        ),
        _ => Fate::unsupported(advice::UNKNOWN),
    });
}
