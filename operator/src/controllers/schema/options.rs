//! Translates a signal's table settings in the API to the ddl crate's options. Pure: no client.
//! Settings are destructured without `..`, so that a new field of the API fails to compile here.

use std::fmt::Display;
use std::str::FromStr;

use millrace_crds::v1alpha1 as crds;
use millrace_ddl as ddl;

use crate::error::StepError;
use crate::pool::settings::variants::same_variant;

/// Returns the options of one signal's tables.
///
/// # Errors
/// When the ddl crate's rules are stricter than the API's; the message names the field.
pub(super) fn build_options(
    signal: crds::Signal,
    settings: &crds::TableSettings,
    window: ddl::DeduplicationWindow,
) -> Result<ddl::TableOptions, StepError> {
    let crds::TableSettings { attributes, engine, ttl, replication, storage, layout } = settings;
    let field = |name: &str| format!("signals.{}.{name}", signal.as_str());
    let attributes = same_variant!(
        attributes.unwrap_or_default(),
        crds::Attributes => ddl::AttributeStorage { Json, Map }
    );
    let replication = || -> Result<ddl::Replication, StepError> {
        let Some(crds::Replication { mode, path, replica }) = replication else {
            return Ok(ddl::Replication::default());
        };
        match (mode, path, replica) {
            (crds::ReplicationMode::ServerDefault, None, None) => {
                Ok(ddl::Replication::ServerDefault)
            }
            (crds::ReplicationMode::Explicit, Some(path), Some(replica)) => {
                Ok(ddl::Replication::Explicit {
                    path: parse_field(&field("replication.path"), path.as_str())?,
                    replica: parse_field(&field("replication.replica"), replica.as_str())?,
                })
            }
            _ => Err(invalid_field(
                &field("replication"),
                "write path and replica, or mode: ServerDefault alone",
            )),
        }
    };
    let engine = match engine.unwrap_or_default() {
        crds::Engine::MergeTree => ddl::Engine::MergeTree,
        crds::Engine::ReplacingMergeTree => ddl::Engine::ReplacingMergeTree,
        crds::Engine::Null => ddl::Engine::Null,
        crds::Engine::ReplicatedMergeTree => ddl::Engine::ReplicatedMergeTree(replication()?),
        crds::Engine::ReplicatedReplacingMergeTree => {
            ddl::Engine::ReplicatedReplacingMergeTree(replication()?)
        }
    };
    let period = ttl.as_ref().and_then(crds::TableTtl::period);
    let ttl = period.map(|period| build_ttl(&field("ttl"), period)).transpose()?;
    let storage = match storage {
        None => ddl::Storage::default(),
        Some(storage) => build_storage(&field, storage)?,
    };
    let layout = build_layout(&field, layout)?;
    Ok(ddl::TableOptions { attributes, engine, ttl, storage, layout, window })
}

fn build_ttl(field: &str, period: &millrace_crds::Period) -> Result<ddl::Ttl, StepError> {
    ddl::Ttl::from_seconds(period.seconds())
        .ok_or_else(|| invalid_field(field, "longer than 100 years: write less, or Forever"))
}

fn build_storage(
    field: &impl Fn(&str) -> String,
    storage: &crds::Storage,
) -> Result<ddl::Storage, StepError> {
    let crds::Storage { policy, move_after, move_to } = storage;
    let name = |at: &str, name: &millrace_crds::StorageName| parse_field(&field(at), name.as_str());
    let move_after = match (move_after, move_to) {
        (Some(period), Some(volume)) => Some(ddl::Move {
            age: build_ttl(&field("storage.moveAfter"), period)?,
            volume: name("storage.moveTo", volume)?,
        }),
        (None, None) => None,
        (Some(_), None) => {
            return Err(invalid_field(
                &field("storage.moveTo"),
                "write the volume or disk to which rows move",
            ));
        }
        (None, Some(_)) => {
            return Err(invalid_field(
                &field("storage.moveAfter"),
                "write the age at which rows move",
            ));
        }
    };
    let policy = policy.as_ref().map(|policy| name("storage.policy", policy)).transpose()?;
    Ok(ddl::Storage { policy, move_after })
}

fn build_layout(
    field: &impl Fn(&str) -> String,
    layout: &crds::Layout,
) -> Result<ddl::Layout, StepError> {
    let crds::Layout {
        compatibility,
        partition_by,
        compression,
        indexes,
        trace_lookup,
        rollup,
        typed_paths,
        materialized,
    } = layout;
    let crds::Indexes { body, attributes, trace_id } = indexes;
    let presence_of = |choice: &Option<bool>, default: bool| match choice.unwrap_or(default) {
        true => ddl::Presence::Included,
        false => ddl::Presence::Omitted,
    };
    Ok(ddl::Layout {
        reader: same_variant!(
            compatibility.unwrap_or_default(),
            crds::TableCompatibility => ddl::Reader { Otel, Otel151, ClickStack }
        ),
        partition: same_variant!(
            partition_by.unwrap_or_default(),
            crds::TablePartitionBy => ddl::PartitionInterval { Day, Month }
        ),
        compression: compression.map(|compression| match compression {
            crds::TableCompression::Zstd1 => ddl::ColumnCompression::Zstd,
            crds::TableCompression::Zstd3 => ddl::ColumnCompression::ZstdHigher,
        }),
        body_index: same_variant!(body.unwrap_or_default(), crds::BodyIndex => ddl::BodyIndex {
            Tokens, Text, None
        }),
        attribute_index: same_variant!(
            attributes.unwrap_or_default(),
            crds::AttributeIndex => ddl::AttributeIndex { Default, Text, None }
        ),
        trace_id_index: presence_of(trace_id, true),
        trace_lookup: presence_of(trace_lookup, true),
        rollup: presence_of(rollup, false),
        typed_paths: typed_paths
            .iter()
            .map(|path| build_typed_path(&field("layout.typedPaths"), path))
            .collect::<Result<_, _>>()?,
        materialized: materialized
            .iter()
            .map(|column| build_materialized(&field("layout.materialized"), column))
            .collect::<Result<_, _>>()?,
    })
}

const fn attribute_column(from: crds::AttributeOf) -> ddl::AttributeColumn {
    same_variant!(from, crds::AttributeOf => ddl::AttributeColumn { Resource, Scope, Record })
}

fn build_typed_path(field: &str, path: &crds::TypedPath) -> Result<ddl::TypedPath, StepError> {
    let crds::TypedPath { from, path, repeating } = path;
    Ok(ddl::TypedPath {
        column: attribute_column(*from),
        path: parse_field(field, path.as_str())?,
        is_repeating: repeating.unwrap_or(true),
    })
}

fn build_materialized(
    field: &str,
    column: &crds::Materialized,
) -> Result<ddl::Materialized, StepError> {
    let crds::Materialized { name, from, path, type_ } = column;
    Ok(ddl::Materialized {
        name: parse_field(field, name.as_str())?,
        column: attribute_column(*from),
        path: parse_field(field, path.as_str())?,
        ty: match type_ {
            crds::MaterializedType::LowCardinalityString => ddl::ComputedType::Name,
            crds::MaterializedType::String => ddl::ComputedType::Text,
            crds::MaterializedType::Int64 => ddl::ComputedType::Integer,
            crds::MaterializedType::Float64 => ddl::ComputedType::Float,
        },
    })
}

pub(super) fn parse_field<T>(field: &str, text: &str) -> Result<T, StepError>
where
    T: FromStr,
    T::Err: Display,
{
    text.parse().map_err(|error| invalid_field(field, error))
}

pub(super) fn invalid_field(field: &str, message: impl Display) -> StepError {
    StepError::spec_invalid(format!("spec.{field}: {message}"))
}
