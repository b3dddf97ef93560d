//! From a signal's table settings in the API to the ddl crate's options. Pure: no client.
//! Destructured without `..`, so that a new field of the API fails to compile here.

use millrace_crds::v1alpha1 as crds;
use millrace_ddl as ddl;

use super::validate::{invalid, read};
use crate::error::StepError;

/// The options of one signal's tables.
///
/// # Errors
/// When the ddl crate's rules are stricter than the API's; the message names the field.
pub(super) fn options(
    signal: crds::Signal,
    settings: &crds::TableSettings,
    window: ddl::Window,
) -> Result<ddl::TableOptions, StepError> {
    let crds::TableSettings { attributes, engine, ttl, replication, storage, layout } = settings;
    let field = |name: &str| format!("signals.{}.{name}", signal.as_str());
    let attributes = match attributes.unwrap_or_default() {
        crds::Attributes::Json => ddl::Attributes::Json,
        crds::Attributes::Map => ddl::Attributes::Map,
    };
    let replication = || -> Result<ddl::Replication, StepError> {
        match replication {
            None => Ok(ddl::Replication::default()),
            Some(crds::Replication { path, replica }) => Ok(ddl::Replication {
                path: read(&field("replication.path"), path.as_str())?,
                replica: read(&field("replication.replica"), replica.as_str())?,
            }),
        }
    };
    let engine = match engine {
        crds::Engine::MergeTree => ddl::Engine::MergeTree,
        crds::Engine::ReplacingMergeTree => ddl::Engine::ReplacingMergeTree,
        crds::Engine::Null => ddl::Engine::Null,
        crds::Engine::ReplicatedMergeTree => ddl::Engine::ReplicatedMergeTree(replication()?),
        crds::Engine::ReplicatedReplacingMergeTree => {
            ddl::Engine::ReplicatedReplacingMergeTree(replication()?)
        }
    };
    let ttl = ttl.as_ref().map(|period| age(&field("ttl"), period)).transpose()?;
    let storage = match storage {
        None => ddl::Storage::default(),
        Some(storage) => disks(&field, storage)?,
    };
    let layout = laid_out(&field, layout)?;
    Ok(ddl::TableOptions { attributes, engine, ttl, storage, layout, window })
}

fn age(field: &str, period: &millrace_crds::Period) -> Result<ddl::Ttl, StepError> {
    ddl::Ttl::from_seconds(period.seconds()).ok_or_else(|| {
        invalid(field, "longer than 100 years: write less, or leave it out to keep rows")
    })
}

fn disks(
    field: &impl Fn(&str) -> String,
    storage: &crds::Storage,
) -> Result<ddl::Storage, StepError> {
    let crds::Storage { policy, move_after, move_to } = storage;
    let name = |at: &str, name: &millrace_crds::StorageName| read(&field(at), name.as_str());
    let move_after = match (move_after, move_to) {
        (Some(period), Some(volume)) => Some(ddl::Move {
            age: age(&field("storage.moveAfter"), period)?,
            volume: name("storage.moveTo", volume)?,
        }),
        (None, None) => None,
        (Some(_), None) => return Err(invalid(&field("storage.moveTo"), "say where rows move to")),
        (None, Some(_)) => return Err(invalid(&field("storage.moveAfter"), "say when rows move")),
    };
    let policy = policy.as_ref().map(|policy| name("storage.policy", policy)).transpose()?;
    Ok(ddl::Storage { policy, move_after })
}

fn laid_out(
    field: &impl Fn(&str) -> String,
    layout: &crds::Layout,
) -> Result<ddl::Layout, StepError> {
    let crds::Layout {
        reader,
        partition_by,
        order_by,
        compression,
        indexes,
        trace_lookup,
        rollup,
        typed_paths,
        materialized,
    } = layout;
    let crds::Indexes { body, attributes, trace_id } = indexes;
    let kept = |said: &Option<bool>, default: bool| match said.unwrap_or(default) {
        true => ddl::Presence::Kept,
        false => ddl::Presence::LeftOut,
    };
    Ok(ddl::Layout {
        reader: match reader {
            crds::TableReader::Otel => ddl::Reader::Otel,
            crds::TableReader::Otel151 => ddl::Reader::Otel151,
            crds::TableReader::ClickStack => ddl::Reader::ClickStack,
        },
        partition: match partition_by {
            crds::TablePartitionBy::Day => ddl::Partition::Day,
            crds::TablePartitionBy::Week => ddl::Partition::Week,
            crds::TablePartitionBy::Month => ddl::Partition::Month,
            crds::TablePartitionBy::Whole => ddl::Partition::Whole,
        },
        order: match order_by {
            crds::OrderBy::ServiceFirst => ddl::Order::ServiceFirst,
            crds::OrderBy::TimeFirst => ddl::Order::TimeFirst,
        },
        compression: match compression {
            crds::TableCompression::Zstd => ddl::Compression::Zstd,
            crds::TableCompression::ZstdHigher => ddl::Compression::ZstdHigher,
            crds::TableCompression::Lz4 => ddl::Compression::Lz4,
        },
        body_index: match body {
            crds::BodyIndex::Tokens => ddl::BodyIndex::Tokens,
            crds::BodyIndex::Text => ddl::BodyIndex::Text,
            crds::BodyIndex::LeftOut => ddl::BodyIndex::LeftOut,
        },
        attribute_index: match attributes {
            crds::AttributeIndex::Usual => ddl::AttributeIndex::Usual,
            crds::AttributeIndex::Keys => ddl::AttributeIndex::Keys,
            crds::AttributeIndex::Text => ddl::AttributeIndex::Text,
            crds::AttributeIndex::LeftOut => ddl::AttributeIndex::LeftOut,
        },
        trace_id_index: kept(trace_id, true),
        trace_lookup: kept(trace_lookup, true),
        rollup: kept(rollup, false),
        typed_paths: typed_paths
            .iter()
            .map(|path| typed(&field("layout.typedPaths"), path))
            .collect::<Result<_, _>>()?,
        materialized: materialized
            .iter()
            .map(|column| computed(&field("layout.materialized"), column))
            .collect::<Result<_, _>>()?,
    })
}

const fn holder(from: crds::AttributeOf) -> ddl::AttributeColumn {
    match from {
        crds::AttributeOf::Resource => ddl::AttributeColumn::Resource,
        crds::AttributeOf::Scope => ddl::AttributeColumn::Scope,
        crds::AttributeOf::Record => ddl::AttributeColumn::Record,
    }
}

fn typed(field: &str, path: &crds::TypedPath) -> Result<ddl::TypedPath, StepError> {
    let crds::TypedPath { from, path, repeating } = path;
    Ok(ddl::TypedPath {
        column: holder(*from),
        path: read(field, path.as_str())?,
        is_repeating: repeating.unwrap_or(true),
    })
}

fn computed(field: &str, column: &crds::Materialized) -> Result<ddl::Materialized, StepError> {
    let crds::Materialized { name, from, path, type_ } = column;
    Ok(ddl::Materialized {
        name: read(field, name.as_str())?,
        column: holder(*from),
        path: read(field, path.as_str())?,
        ty: match type_ {
            crds::MaterializedType::Name => ddl::OwnType::Name,
            crds::MaterializedType::Text => ddl::OwnType::Text,
            crds::MaterializedType::Integer => ddl::OwnType::Integer,
            crds::MaterializedType::Float => ddl::OwnType::Float,
        },
    })
}
