//! `xtask demo`: the main job on this machine, as a user would do it: install with Helm, apply a
//! `TelemetryPipeline`, wait until it is Ready, send a million spans to the edge while a pod's log is
//! read from its node, and have every span and every line counted in ClickHouse. The last lines are
//! the verdicts; anything missing is a failure.

mod figures;
mod load;
mod logs;
mod world;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use millrace_stack::Stack;
use serde_json::Value;

use crate::build::{self, Binaries, Collectors, Shown};
use crate::cluster::install;
use crate::{say, shell};
use figures::{EDGE, Seen, Watch};
use load::Load;
use logs::{LOOK, Logs};

/// Where the pipeline lives.
const NAMESPACE: &str = "telemetry";
/// The pipeline's name, as in `manifests/samples/demo.yaml`.
const PIPELINE: &str = "demo";
/// Spans sent.
const SPANS: u64 = 1_000_000;
/// From apply to Ready: images are local, so seconds; more is a fault worth reading about.
const READY_LIMIT: Duration = Duration::from_secs(180);

/// Run it.
pub(crate) fn run(from: Binaries, collectors: Collectors) -> Result<()> {
    let started = Instant::now();
    let stack = Stack::open()?;
    // Each of the two waits for links and fetches of its own.
    let Shown { images, load_generator } = thread::scope(|scope| {
        let shown = scope.spawn(|| build::shown(from, collectors));
        let up = stack.up(&say::progress());
        if let Err(error) = &up {
            say::step(&format!("the local stack failed, the build still runs: {error:#}"));
        }
        let Ok(shown) = shown.join() else { bail!("the build of the images panicked") };
        up?;
        shown
    })?;
    let loaded = build::load(&stack, images)?;
    install::charts(&stack, &loaded)?;
    say::step(&format!("applying manifests/samples/demo.yaml in namespace {NAMESPACE}"));
    world::apply(&stack, NAMESPACE)?;
    let endpoint = ready(&stack)?;
    say::step(
        "a pod writes numbered lines; the pool on nodes reads what the kubelet makes of them",
    );
    let logs = Logs::begin(&stack, NAMESPACE)?;
    say::step(&format!("sending {SPANS} spans to the edge, {endpoint}, and checking each"));
    let watch = Watch::begin(&stack, NAMESPACE);
    let load = load::send_and_check(&load_generator, &stack, &endpoint, SPANS)?;
    let (edge, gateway) = watch.end()?;
    let lines = logs.check(&stack, NAMESPACE)?;
    let operator = figures::operator_rss(&stack, install::NAMESPACE);
    let pipeline = pipeline(&stack)?;
    say::line("");
    for line in table(&load, &edge, &gateway, operator, &pipeline, started.elapsed()) {
        say::line(&line);
    }
    next_steps(&stack);
    say::line(&lines.text);
    say::line(&load.verdict);
    if !load.whole || !lines.whole {
        bail!("a verdict above falls short: `make status` names the logs");
    }
    Ok(())
}

/// Wait for Ready, telling each change of its reason; gives the edge's OTLP/gRPC endpoint.
fn ready(stack: &Stack) -> Result<String> {
    say::step("waiting for the pipeline to be Ready");
    let began = Instant::now();
    let mut told = String::new();
    loop {
        let object = pipeline(stack)?;
        let generation = object["metadata"]["generation"].as_i64();
        let conditions = object["status"]["conditions"].as_array();
        let ready = conditions.into_iter().flatten().find(|one| one["type"] == "Ready");
        let field = |name: &str| ready.and_then(|one| one[name].as_str()).unwrap_or("-");
        let now = format!("Ready={} {}: {}", field("status"), field("reason"), field("message"));
        if now != told {
            say::step(&format!("  [{:5.1} s] {now}", began.elapsed().as_secs_f64()));
            told = now;
        }
        let current = ready.is_some_and(|one| one["observedGeneration"].as_i64() == generation);
        if current && field("status") == "True" {
            return edge_address(stack);
        }
        if began.elapsed() > READY_LIMIT {
            bail!("not Ready after {} s: {told}", READY_LIMIT.as_secs());
        }
        thread::sleep(LOOK);
    }
}

fn pipeline(stack: &Stack) -> Result<Value> {
    let output = stack.kubectl(["-n", NAMESPACE, "get", "tp", PIPELINE, "-o", "json"])?;
    let text = shell::said("kubectl", &output)?;
    serde_json::from_str(&text).context("kubectl printed no JSON")
}

/// The edge Service's cluster address: this machine has a route to it.
fn edge_address(stack: &Stack) -> Result<String> {
    let selector = &format!(
        "app.kubernetes.io/managed-by=millrace-operator,app.kubernetes.io/instance={EDGE}"
    );
    let path = "jsonpath={.items[0].spec.clusterIP}";
    let output = stack.kubectl(["-n", NAMESPACE, "get", "svc", "-l", selector, "-o", path])?;
    let address = shell::said("kubectl", &output)?;
    if address.is_empty() {
        bail!("the edge pool has no Service in namespace {NAMESPACE}");
    }
    Ok(format!("http://{address}:4317"))
}

/// What happened, a line each.
fn table(
    load: &Load,
    edge: &Seen,
    gateway: &Seen,
    operator: Option<f64>,
    pipeline: &Value,
    all: Duration,
) -> Vec<String> {
    let status = &pipeline["status"];
    let per_cpu = |seen: &Seen| {
        let seconds = seen.cpu_seconds.filter(|seconds| *seconds > 0.0);
        seconds.map_or_else(
            || "-".to_owned(),
            |seconds| format!("{:.0} spans per CPU-second", SPANS as f64 / seconds),
        )
    };
    let lag = gateway.peak_lag_seconds.map_or_else(|| "-".to_owned(), |lag| format!("{lag:.1} s"));
    let operator = operator
        .map_or_else(|| "-".to_owned(), |bytes| format!("{:.1} MiB", bytes / (1024.0 * 1024.0)));
    let now = status["lag"]["seconds"].as_f64().map_or("-".to_owned(), |lag| format!("{lag} s"));
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    vec![
        format!("  sent and acknowledged   {}", load.sending),
        format!("  lag                     {lag} at its peak, {now} now"),
        format!("  pods                    {} ready", text(&status["pods"])),
        format!("  schema                  revision {}", text(&status["schemaRevision"])),
        format!("  edge                    {}; {}", per_cpu(edge), edge.memory()),
        format!("  gateway                 {}; {}", per_cpu(gateway), gateway.memory()),
        format!("  operator                {operator} resident"),
        format!("  the whole demo          {:.0} s", all.as_secs_f64()),
        String::new(),
    ]
}

/// Where to look next.
fn next_steps(stack: &Stack) {
    let look = [
        "Look next:".to_owned(),
        format!("  export KUBECONFIG={}", stack.kubeconfig().display()),
        format!("  kubectl -n {NAMESPACE} get millrace"),
        format!("  kubectl -n {NAMESPACE} describe telemetrypipeline {PIPELINE}"),
        "  kubectl explain telemetrypipeline.spec".to_owned(),
        "  kubectl -n millrace-system port-forward deployment/millrace-operator 8081".to_owned(),
        "      # then http://localhost:8081/ is the console".to_owned(),
        format!("  {}", world::query(stack)),
        "  make down     # removes it all".to_owned(),
        String::new(),
    ];
    for line in look {
        say::line(&line);
    }
}
