//! Flags of how tables lie on disk, and the checked layout they become.

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use millrace_ddl::{
    AttributeColumn, AttributeIndex, BodyIndex, ColumnCompression, ComputedType, Layout,
    Materialized, Move, PartitionInterval, Presence, Reader, Storage, StorageName, Ttl, TypedPath,
};

/// Layout of tables on disk.
#[derive(Debug, Args)]
pub(super) struct LayoutFlags {
    /// Readers whose queries the tables serve: keys, indexes and computed columns differ.
    #[arg(long, value_enum, default_value_t)]
    compatibility: CompatibilityFlag,
    /// Partitioning of rows.
    #[arg(long, value_enum, default_value_t)]
    partition_by: PartitionFlag,
    /// How columns are compressed. Default: zstd in new tables; existing ones are unchanged.
    #[arg(long, value_enum)]
    compression: Option<CompressionFlag>,
    /// Index of log bodies.
    #[arg(long, value_enum, default_value_t)]
    body_index: BodyFlag,
    /// Indexes of attributes.
    #[arg(long, value_enum, default_value_t)]
    attribute_index: AttributeFlag,
    /// Omit the index of trace ids.
    #[arg(long)]
    no_trace_id_index: bool,
    /// Omit the table of trace ids and its view.
    #[arg(long)]
    no_trace_lookup: bool,
    /// Add a 15-minute roll-up of attribute names and values to each table.
    #[arg(long)]
    rollup: bool,
    /// Storage policy of the server's configuration.
    #[arg(long, value_name = "NAME")]
    storage_policy: Option<StorageName>,
    /// Age at which rows move to --move-to.
    #[arg(long, value_name = "AGE", requires = "move_to")]
    move_after: Option<Ttl>,
    /// Volume of the storage policy that older rows move to.
    #[arg(long, value_name = "VOLUME", requires = "move_after")]
    move_to: Option<StorageName>,
    /// An attribute stored as separate text inside JSON: resource:k8s.pod.name, record:..., or
    /// scope:...; repeat for more.
    #[arg(long, value_name = "WHERE:PATH")]
    typed_path: Vec<String>,
    /// A computed column: Name=resource:k8s.pod.name:name, the last part one of name, text,
    /// integer, float; repeat for more.
    #[arg(long, value_name = "NAME=WHERE:PATH:TYPE")]
    materialize: Vec<String>,
}

/// Whose tables.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum CompatibilityFlag {
    /// The Collector's exporter up to 0.150, and what reads its tables.
    #[default]
    Otel,
    /// The same from 0.151 on.
    #[value(name = "otel151")]
    Otel151,
    /// HyperDX.
    #[value(name = "clickstack")]
    ClickStack,
}

impl From<CompatibilityFlag> for Reader {
    fn from(flag: CompatibilityFlag) -> Self {
        match flag {
            CompatibilityFlag::Otel => Self::Otel,
            CompatibilityFlag::Otel151 => Self::Otel151,
            CompatibilityFlag::ClickStack => Self::ClickStack,
        }
    }
}

macro_rules! choices {
    ($($flag:ident for $of:ident { $default:ident, $($other:ident),* })*) => {$(
        #[derive(Clone, Copy, Debug, Default, ValueEnum)]
        enum $flag {
            #[default]
            $default,
            $($other,)*
        }

        impl From<$flag> for $of {
            fn from(flag: $flag) -> Self {
                match flag {
                    $flag::$default => Self::$default,
                    $($flag::$other => Self::$other,)*
                }
            }
        }
    )*};
}
choices! {
    PartitionFlag for PartitionInterval { Day, Month }
    CompressionFlag for ColumnCompression { Zstd, ZstdHigher }
    BodyFlag for BodyIndex { Tokens, Text, None }
    AttributeFlag for AttributeIndex { Default, None, Text }
}

const WHERE_RULE: &str = "begin with resource:, scope: or record:";

fn parse_attribute(text: &str) -> Result<(AttributeColumn, &str)> {
    match text.split_once(':') {
        Some(("resource", path)) => Ok((AttributeColumn::Resource, path)),
        Some(("scope", path)) => Ok((AttributeColumn::Scope, path)),
        Some(("record", path)) => Ok((AttributeColumn::Record, path)),
        _ => bail!("{text:?}: {WHERE_RULE}"),
    }
}

fn typed_path(text: &str) -> Result<TypedPath> {
    let (column, path) = parse_attribute(text).context("--typed-path")?;
    let path = path.parse().context("--typed-path")?;
    Ok(TypedPath { column, path, is_repeating: true })
}

fn parse_materialized(text: &str) -> Result<Materialized> {
    let rule = "--materialize: write Name=resource:k8s.pod.name:name";
    let (name, rest) = text.split_once('=').context(rule)?;
    let (column, rest) = parse_attribute(rest).context("--materialize")?;
    let (path, ty) = rest.rsplit_once(':').context(rule)?;
    let ty = match ty {
        "name" => ComputedType::Name,
        "text" => ComputedType::Text,
        "integer" => ComputedType::Integer,
        "float" => ComputedType::Float,
        other => bail!("--materialize: {other:?} is no type; write name, text, integer or float"),
    };
    let name = name.parse().context("--materialize")?;
    Ok(Materialized { name, column, path: path.parse().context("--materialize")?, ty })
}

impl LayoutFlags {
    pub(super) fn to_layout(&self) -> Result<Layout> {
        let presence = |left_out| if left_out { Presence::Omitted } else { Presence::Included };
        Ok(Layout {
            reader: self.compatibility.into(),
            partition: self.partition_by.into(),
            compression: self.compression.map(Into::into),
            body_index: self.body_index.into(),
            attribute_index: self.attribute_index.into(),
            trace_id_index: presence(self.no_trace_id_index),
            trace_lookup: presence(self.no_trace_lookup),
            rollup: presence(!self.rollup),
            typed_paths: self
                .typed_path
                .iter()
                .map(|text| typed_path(text))
                .collect::<Result<_>>()?,
            materialized: self
                .materialize
                .iter()
                .map(|text| parse_materialized(text))
                .collect::<Result<_>>()?,
        })
    }

    pub(super) fn to_storage(&self) -> Storage {
        let moved = self.move_after.zip(self.move_to.clone());
        Storage {
            policy: self.storage_policy.clone(),
            move_after: moved.map(|(age, volume)| Move { age, volume }),
        }
    }
}
