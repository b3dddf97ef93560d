//! The rows of test records, all parts real: the requests that `kubectl millrace verify` sends go
//! through an edge, Kafka and a gateway, and the collector's command `rows` looks for them.

use std::process::{Command, Output};
use std::time::Duration;

use millrace_e2e::collector::Collector;
use millrace_e2e::lab::{Lab, Variant};
use millrace_e2e::{binaries, http};
use serde_json::Value;

/// The records of each signal: what the plugin's tests hold against its own code.
const LOADS: [(&str, &str); 3] = [
    ("traces", include_str!("../../../operator/tools/plugin/tests/plugin/golden/load-traces.json")),
    ("logs", include_str!("../../../operator/tools/plugin/tests/plugin/golden/load-logs.json")),
    (
        "metrics",
        include_str!("../../../operator/tools/plugin/tests/plugin/golden/load-metrics.json"),
    ),
];
/// Their run, and when it began: 2026-11-26T12:00:00Z.
const RUN: &str = "5eed0000000000a1";
const SINCE: &str = "1795694400";
/// Three records are stored well within this.
const WAIT: &str = "60";

/// `millrace-collector rows` with the settings of one of the lab's gateways.
fn rows(lab: &Lab, gateway: &str, signal: &str, run: &str, expect: &str, wait: &str) -> Output {
    let config = lab.folder().join(format!("{gateway}.yaml"));
    let mut command = Command::new(binaries::path("millrace-collector").unwrap());
    command.args(["rows", "--signal", signal, "--run", run, "--since", SINCE]);
    command.args(["--expect", expect, "--wait", wait]).arg("--config").arg(config);
    command.output().unwrap()
}

/// Its last line; it must do well.
fn told(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

fn send(edge: &Collector, signal: &str, load: &str) {
    let json = ("content-type", "application/json");
    let path = format!("/v1/{signal}");
    let answer = http::send(edge.ports.http, "POST", &path, &[json], load.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Scenario: three test records of each signal, with JSON and with Map attributes; then another run
/// and a fourth record are asked for; then the same request is sent again. Guarantee: all are found
/// once in both tables; other runs are not; a missing record is named; repeated rows are counted.
/// Slow: a broker, an engine and three collectors start, and the program that counts rows runs nine
/// times or more.
#[test]
fn the_plugins_records_are_found_in_the_tables_of_each_signal() {
    let lab = Lab::start().unwrap();
    lab.make_tables(Variant::Map.database(), Variant::Map).unwrap();
    let edge = lab.edge().unwrap();
    let soon = "    batch: {maxAgeMillis: 100}\n";
    let _json = lab.gateway("gateway", soon).unwrap();
    let _map = lab.gateway_into("gateway-map", "lab-map", Variant::Map, soon).unwrap();
    for (signal, load) in LOADS {
        send(&edge, signal, load);
        for gateway in ["gateway", "gateway-map"] {
            let seen = told(&rows(&lab, gateway, signal, RUN, "3", WAIT));
            assert_eq!((&seen["found"], &seen["repeated"]), (&3.into(), &0.into()), "{seen}");
            assert_eq!(seen["unexpected"], 0, "{seen}");
        }
    }
    let other = told(&rows(&lab, "gateway", "traces", "5eed0000000000a2", "3", "0"));
    assert_eq!((&other["found"], &other["unexpected"]), (&0.into(), &0.into()), "{other}");
    let fourth = told(&rows(&lab, "gateway", "logs", RUN, "4", "1"));
    assert_eq!(fourth["missingFirst"], serde_json::json!([4]), "{fourth}");
    let (signal, load) = LOADS[0];
    send(&edge, signal, load);
    millrace_e2e::wait::until("the repeated rows", Duration::from_secs(60), || {
        let seen = told(&rows(&lab, "gateway", signal, RUN, "3", "0"));
        anyhow::ensure!(seen["repeated"] == 3, "{seen}");
        Ok(())
    })
    .unwrap();
}

/// Scenario: no table; a run and a number of records that are none. Guarantee: the first is told at
/// once though there was time to wait, with what to look at; the others are refused before anything
/// is asked. Slow: a broker, an engine and a gateway start.
#[test]
fn what_can_not_be_looked_for_is_told_at_once() {
    let lab = Lab::start().unwrap();
    let _gateway = lab.gateway("gateway", "").unwrap();
    lab.engine.query("DROP TABLE otel.otel_logs").unwrap();
    let gone = rows(&lab, "gateway", "logs", RUN, "3", "900");
    let error = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
    assert!(error.contains("code 60") && error.contains("TelemetrySchema"), "{error}");
    for (run, expect) in [("5EED0000000000A1", "3"), ("' OR '", "3"), (RUN, "10001")] {
        let refused = rows(&lab, "gateway", "traces", run, expect, "0");
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
}
