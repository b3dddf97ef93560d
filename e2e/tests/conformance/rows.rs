//! Rows of both sides compared in SQL, column by column. No two records of the loads share a time,
//! so time joins them.

use anyhow::Result;
use millrace_e2e::lab::{Lab, Variant};
use millrace_schema::{Attributes, ColumnType, Table, TableKind, table};

use super::otelcol;

/// Columns that differ, each as `table.column`, and why, in docs/conformance.md.
pub(crate) fn known(variant: Variant) -> impl Iterator<Item = &'static str> {
    let known: &[&str] = match variant {
        // A double without a fraction is an integer in JSON text.
        Variant::Json => &["traces.SpanAttributes (types)"],
        // Ids of exemplars outside of any trace: ours empty, theirs zeros.
        Variant::Map => &[
            "metrics_gauge.Exemplars.SpanId",
            "metrics_gauge.Exemplars.TraceId",
            "metrics_sum.Exemplars.SpanId",
            "metrics_sum.Exemplars.TraceId",
            "metrics_histogram.Exemplars.SpanId",
            "metrics_histogram.Exemplars.TraceId",
            "metrics_exponential_histogram.Exemplars.SpanId",
            "metrics_exponential_histogram.Exemplars.TraceId",
        ],
    };
    known.iter().copied()
}

/// Every column in which any row differs, by table and column in their order.
pub(crate) fn differing_columns(lab: &Lab, variant: Variant) -> Result<Vec<String>> {
    let attributes = match variant {
        Variant::Json => Attributes::Json,
        Variant::Map => Attributes::Map,
    };
    let mut differing = Vec::new();
    for kind in TableKind::ALL {
        let is_metric = !matches!(kind, TableKind::Traces | TableKind::TraceIdTs | TableKind::Logs);
        if kind == TableKind::TraceIdTs || (is_metric && variant == Variant::Json) {
            continue;
        }
        differing.extend(differing_in(lab, variant, &table(kind, attributes))?);
    }
    Ok(differing)
}

fn differing_in(lab: &Lab, variant: Variant, table: &Table) -> Result<Vec<String>> {
    let kind = table.kind;
    let time = match kind {
        TableKind::Traces | TableKind::Logs => "Timestamp",
        _ => "TimeUnix",
    };
    let columns: Vec<(String, String)> = table.insert_columns().flat_map(forms).collect();
    let counts: Vec<String> = columns
        .iter()
        .map(|(_, form)| {
            format!("countIf({} != {})", form.replace('@', "o."), form.replace('@', "t."))
        })
        .collect();
    let query = format!(
        "SELECT count(), {} FROM {}.otel_{kind} AS o FULL JOIN {}.otel_{kind} AS t \
         ON o.{time} = t.{time} FORMAT TabSeparated",
        counts.join(", "),
        variant.database(),
        otelcol::database(variant),
    );
    let answer = lab.engine.query(&query)?;
    let mut figures = answer.trim().split('\t').map(|figure| figure.parse::<u64>().unwrap());
    assert!(figures.next().unwrap() > 0, "no rows of {kind}");
    let named = columns.iter().zip(figures).filter(|(_, count)| *count > 0);
    Ok(named.map(|((name, _), _)| format!("{kind}.{name}")).collect())
}

/// How a column is compared; `@` stands for the side. JSON by its text, and by its types too.
fn forms(column: &millrace_schema::Column) -> Vec<(String, String)> {
    let name = column.name;
    match column.ty {
        ColumnType::Json => vec![
            (name.to_owned(), format!("toJSONString(@`{name}`)")),
            (format!("{name} (types)"), format!("toString(JSONAllPathsWithTypes(@`{name}`))")),
        ],
        ColumnType::Array(ColumnType::Json) => vec![
            (name.to_owned(), format!("toJSONString(@`{name}`)")),
            (
                format!("{name} (types)"),
                format!("toString(arrayMap(set -> JSONAllPathsWithTypes(set), @`{name}`))"),
            ),
        ],
        _ => vec![(name.to_owned(), format!("toString(@`{name}`)"))],
    }
}
