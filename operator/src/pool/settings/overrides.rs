//! Merges a pool's `spec.config` over the settings that the operator renders. Pure.
//!
//! Objects merge by field, lists and scalars replace, null restores the collector's default
//! (RFC 7386). A setting that has its own field in the spec, or that the operator depends on, is
//! refused with the field to use instead: no setting has two sources.
//! Limits: [`BYTES_MAX`] of JSON.

use millrace_config as config;
use serde_json::{Map, Value};

use crate::error::Invalid;
use crate::ownership::compare::with_field;

/// A ConfigMap holds 1 MiB, and the rendered settings need a part of it.
const BYTES_MAX: usize = 64 << 10;

/// A setting that `spec.config` can't change.
#[derive(Clone, Copy, Debug)]
pub struct ReservedSetting {
    /// The path; settings below it are reserved too.
    pub path: &'static str,
    /// What to use instead, or what would break.
    pub instead: &'static str,
    /// Settings below the path that may change.
    pub except: &'static [&'static str],
}

const fn reserved(path: &'static str, instead: &'static str) -> ReservedSetting {
    ReservedSetting { path, instead, except: &[] }
}

/// All settings that `spec.config` can't change.
pub const RESERVED: &[ReservedSetting] = &[
    reserved("admin", "probes, metrics and the operator use port 9464"),
    reserved("memory", "use resources.limits.memory"),
    reserved("shutdown.deadlineSeconds", "use drainSeconds"),
    reserved("telemetry", "use telemetry"),
    reserved("positions", "the operator mounts this directory from the node"),
    reserved("processing", "use resourceAttributes and processing"),
    reserved("receivers.otlp.grpc", "use receivers.otlp.tls; the Service uses port 4317"),
    reserved("receivers.otlp.http", "use receivers.otlp.tls; the Service uses port 4318"),
    ReservedSetting {
        path: "receivers.otlp.limits",
        instead: "use receivers.otlp.limits",
        except: &[
            "receivers.otlp.limits.concurrentStreams",
            "receivers.otlp.limits.handshakeSeconds",
            "receivers.otlp.limits.headerListBytes",
            "receivers.otlp.limits.headerReadSeconds",
            "receivers.otlp.limits.idleSeconds",
        ],
    },
    ReservedSetting {
        path: "receivers.containers",
        instead: "use receivers.containers",
        except: &[
            "receivers.containers.maxLineBytes",
            "receivers.containers.multiline.timeoutMillis",
        ],
    },
    reserved("receivers.files", "use receivers.files"),
    reserved("receivers.kernel", "use receivers.kernel"),
    reserved("receivers.prometheus", "use receivers.prometheus"),
    reserved("receivers.kafka.connection", "use kafka"),
    reserved("receivers.kafka.groupId", "use consumerGroup"),
    reserved("receivers.kafka.groupInstanceIdEnv", "pods are members under their own names"),
    reserved("receivers.kafka.groupProtocol", "use groupProtocol"),
    reserved("receivers.kafka.topics", "use signals"),
    reserved("receivers.kafka.deadLetterTopics", "the operator creates and watches these topics"),
    reserved("receivers.kafka.delivery", "use delivery"),
    reserved("exporters.kafka.connection", "use kafka"),
    reserved("exporters.kafka.topics", "use signals"),
    reserved("exporters.kafka.compression", "use compression"),
    reserved("exporters.kafka.partitionBy", "use partitionBy"),
    reserved("exporters.kafka.acknowledge", "use acknowledge"),
    reserved("exporters.kafka.buffer", "use buffer"),
    reserved("exporters.kafka.lingerMillis", "use producer.lingerMillis"),
    reserved("exporters.kafka.maxMessageBytes", "use producer.maxMessageBytes"),
    reserved("exporters.kafka.deliveryTimeoutSeconds", "use producer.deliveryTimeoutSeconds"),
    reserved("exporters.clickhouse.endpoints", "use clickhouse.endpoints"),
    reserved("exporters.clickhouse.shards", "use clickhouse.shards"),
    reserved("exporters.clickhouse.database", "use clickhouse.database"),
    reserved("exporters.clickhouse.tablePrefix", "use clickhouse.tablePrefix"),
    reserved("exporters.clickhouse.credentials", "use clickhouse.authentication"),
    reserved("exporters.clickhouse.tls", "use clickhouse.tls"),
    reserved("exporters.clickhouse.attributes", "use attributes of the signals or tables"),
    reserved("exporters.clickhouse.nestedDepth", "use nestedDepth"),
    reserved("exporters.clickhouse.batch", "use batch"),
];

/// Merges `theirs` over the rendered settings.
///
/// # Errors
/// When `theirs` is too large, changes a reserved setting, adds a receiver or exporter, or isn't
/// settings of a collector; the message names the field.
pub fn merge_config(
    rendered: config::Config,
    theirs: &Map<String, Value>,
) -> Result<config::Config, Invalid> {
    if theirs.is_empty() {
        return Ok(rendered);
    }
    let theirs = Value::Object(theirs.clone());
    let bytes = theirs.to_string().len();
    if bytes > BYTES_MAX {
        return Err(invalid("", &format!("has {bytes} bytes: at most {BYTES_MAX} are allowed")));
    }
    if let Some(setting) = RESERVED.iter().find(|setting| setting.is_changed_by(&theirs)) {
        return Err(invalid(setting.path, &format!("can't be changed here: {}", setting.instead)));
    }
    let to_invalid = |error: &dyn std::fmt::Display| invalid("", &error.to_string());
    let mut merged = serde_json::to_value(&rendered).map_err(|error| to_invalid(&error))?;
    check_sections(&merged, &theirs)?;
    merge_value(&mut merged, &theirs);
    // JSON is YAML. The position is of the merged text, which the user didn't write.
    config::Config::parse(&merged.to_string()).map_err(|error| {
        let problems = error.problems().iter().map(|it| match &*it.field {
            "" => format!("spec.config: {}", it.message),
            field => format!("spec.config.{field}: {}", it.message),
        });
        Invalid::spec_invalid(problems.collect::<Vec<_>>().join("; "))
    })
}

/// Returns a number in `spec.config`, or the collector's default.
#[must_use]
pub fn number_or(theirs: &Map<String, Value>, path: &[&str], default: u32) -> u32 {
    let mut steps = path.iter();
    let first = steps.next().and_then(|step| theirs.get(*step));
    let found = steps.try_fold(first, |value, step| Some(value?.get(step)));
    let number = found.flatten().and_then(Value::as_u64);
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(default)
}

impl ReservedSetting {
    /// Returns whether the value sets this setting, or removes a section that holds it.
    fn is_changed_by(&self, theirs: &Value) -> bool {
        let mut at = theirs;
        for step in self.path.split('.') {
            match at {
                Value::Object(fields) => match fields.get(step) {
                    Some(below) => at = below,
                    None => return false,
                },
                _ => return true,
            }
        }
        !self.allows(at, &mut self.path.to_owned())
    }

    /// Returns whether all that is set at a path is an exception.
    fn allows(&self, value: &Value, path: &mut String) -> bool {
        if self.except.contains(&path.as_str()) {
            return true;
        }
        let Value::Object(fields) = value else { return false };
        let mut all = fields.iter();
        !fields.is_empty()
            && all.all(|(name, value)| with_field(path, name, |path| self.allows(value, path)))
    }
}

/// The operator mounts what receivers need, and decides the mode.
fn check_sections(rendered: &Value, theirs: &Value) -> Result<(), Invalid> {
    for section in ["receivers", "exporters"] {
        let names = theirs[section].as_object().into_iter().flat_map(Map::keys);
        for name in names {
            if rendered[section].get(name).is_none() {
                let why = "the pool has no such section, and config can't add one";
                return Err(invalid(&format!("{section}.{name}"), why));
            }
        }
    }
    Ok(())
}

fn merge_value(into: &mut Value, theirs: &Value) {
    let Value::Object(fields) = theirs else {
        *into = theirs.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let Value::Object(merged) = into else { return };
    for (name, value) in fields {
        match value {
            Value::Null => {
                merged.remove(name);
            }
            value => merge_value(merged.entry(name.clone()).or_insert(Value::Null), value),
        }
    }
}

fn invalid(path: &str, why: &str) -> Invalid {
    let dot = if path.is_empty() { "" } else { "." };
    Invalid::spec_invalid(format!("spec.config{dot}{path}: {why}"))
}

#[cfg(test)]
mod tests;
