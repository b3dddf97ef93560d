//! `clickhouse-ddl coordination`: prints the requests that a load makes of Keeper or ZooKeeper. It
//! queries no server.

use std::io::Write;

use anyhow::Result;
use millrace_coordination::plan::{
    Advice, CoordinationPlan, InsertLoad, MULTI_SHARE, REQUESTS_PER_CORE_SECOND,
};
use millrace_ddl::DeduplicationWindow;
use serde_json::json;

use crate::args::LoadFlags;

/// Prints the load's requests.
pub(crate) fn print_load(flags: &LoadFlags) -> Result<()> {
    let load = InsertLoad {
        rows_per_second: f64::from(flags.rows_per_second),
        rows_per_part: f64::from(flags.rows_per_part),
        replicas: flags.replicas,
        tables: flags.tables,
        shards: flags.shards,
        window: DeduplicationWindow::for_gateways(flags.gateways).inserts,
    };
    let plan = load.plan();
    let mut out = std::io::stdout().lock();
    // The reader closed the pipe, so the error has no recipient either.
    let _ = match flags.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&as_json(&plan))?),
        false => write!(out, "{}", as_text(&plan)),
    };
    Ok(())
}

fn as_json(plan: &CoordinationPlan) -> serde_json::Value {
    let CoordinationPlan {
        parts_per_second,
        requests_per_second,
        multi_requests_per_second,
        requests_per_million_rows,
        znodes,
        data_bytes,
        advice,
    } = plan;
    json!({
        "partsPerSecond": parts_per_second,
        "requestsPerSecond": requests_per_second,
        "multiRequestsPerSecond": multi_requests_per_second,
        "requestsPerMillionRows": requests_per_million_rows,
        "znodes": znodes.round(),
        "dataBytes": data_bytes.round(),
        "advice": describe_advice(*advice),
    })
}

fn as_text(plan: &CoordinationPlan) -> String {
    let CoordinationPlan {
        parts_per_second,
        requests_per_second,
        multi_requests_per_second,
        requests_per_million_rows,
        znodes,
        data_bytes,
        advice,
    } = plan;
    let percent = MULTI_SHARE * 100.0;
    format!(
        "parts per second                {parts_per_second:.2}\n\
         requests per second             {requests_per_second:.1}\n\
         of these, multi requests        {multi_requests_per_second:.1} ({percent:.0} %)\n\
         requests per million rows       {requests_per_million_rows:.1}\n\
         znodes, at most                 {znodes:.0}\n\
         size of the znodes, per server  {:.0} MB\n\
         {}\n\
         This is a model of tables made by clickhouse-ddl. status.coordination of a \
         TelemetrySchema has measured figures.\n",
        data_bytes / 1e6,
        describe_advice(*advice),
    )
}

fn describe_advice(advice: Advice) -> String {
    let core = REQUESTS_PER_CORE_SECOND;
    match advice {
        Advice::Enough => format!(
            "three servers with one core each suffice: each stays below half of {core:.0} requests \
             per second"
        ),
        Advice::TwoCores => "use three servers with two cores each, or larger parts".to_owned(),
        Advice::MoreEnsembles { ensembles } => format!(
            "use larger parts, or {ensembles} ensembles, each for some of the shards: an ensemble \
             orders its writes one after another, so larger servers don't help"
        ),
    }
}
