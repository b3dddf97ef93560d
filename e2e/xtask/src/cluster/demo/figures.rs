//! The demo's figures: what the collectors' and the operator's own metrics say while records flow,
//! sampled through the API server's pod proxy. Nothing here is computed from wishes: a pod that
//! can't be asked leaves a dash.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};
use millrace_stack::Stack;
use serde_json::Value;

use crate::shell;

/// The EdgePool of its edge pool for clients.
pub(super) const EDGE: &str = "demo-clients";

/// Between two samples; one takes about a tenth of a second per pod.
const SAMPLE: Duration = Duration::from_millis(500);
/// The collectors' admin port.
const COLLECTOR_PORT: u16 = 9464;
/// The operator's admin port.
const OPERATOR_PORT: u16 = 8080;
const MIB: f64 = 1024.0 * 1024.0;

/// What was seen of one group of pods.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Resident memory of the largest pod at the first sample, in bytes.
    pub(super) first_rss: Option<f64>,
    /// The largest resident memory of any pod at any sample, in bytes.
    pub(super) peak_rss: Option<f64>,
    /// Processor seconds of all pods together, at the last sample less at the first.
    pub(super) cpu_seconds: Option<f64>,
    /// The largest lag of any partition at any sample, in seconds.
    pub(super) peak_lag_seconds: Option<f64>,
    first_cpu: Option<f64>,
}

/// Sampling under way.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    sampler: JoinHandle<(Seen, Seen)>,
}

impl Watch {
    /// Begin to sample the pools in a namespace.
    pub(super) fn begin(stack: &Stack, namespace: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stack, namespace) = (stack.clone(), namespace.to_owned());
        let stopped = Arc::clone(&stop);
        let sampler = thread::spawn(move || {
            let (mut edge, mut gateway) = (Seen::default(), Seen::default());
            loop {
                let last = stopped.load(Ordering::Acquire);
                // Clients' pods alone: the pool on nodes takes no spans.
                edge.sample(&stack, &namespace, &format!("instance={EDGE}"));
                gateway.sample(&stack, &namespace, "component=gateway");
                if last {
                    return (edge, gateway);
                }
                thread::sleep(SAMPLE);
            }
        });
        Self { stop, sampler }
    }

    /// One last sample, then what was seen of edge and gateway.
    pub(super) fn end(self) -> Result<(Seen, Seen)> {
        self.stop.store(true, Ordering::Release);
        self.sampler.join().map_err(|_| anyhow!("the sampler of figures broke"))
    }
}

impl Seen {
    fn sample(&mut self, stack: &Stack, namespace: &str, label: &str) {
        let selector =
            format!("app.kubernetes.io/managed-by=millrace-operator,app.kubernetes.io/{label}");
        let texts = metrics_of(stack, namespace, &selector, COLLECTOR_PORT);
        if texts.is_empty() {
            return;
        }
        let rss = texts.iter().filter_map(|text| largest(text, "process_resident_memory_bytes"));
        if let Some(rss) = rss.reduce(f64::max) {
            self.first_rss.get_or_insert(rss);
            self.peak_rss = Some(self.peak_rss.map_or(rss, |peak| peak.max(rss)));
        }
        let cpu: f64 =
            texts.iter().filter_map(|text| largest(text, "process_cpu_seconds_total")).sum();
        let first = *self.first_cpu.get_or_insert(cpu);
        self.cpu_seconds = Some(cpu - first);
        let lag = texts.iter().filter_map(|text| largest(text, "millrace_consumer_lag_seconds"));
        if let Some(lag) = lag.reduce(f64::max) {
            self.peak_lag_seconds = Some(self.peak_lag_seconds.map_or(lag, |peak| peak.max(lag)));
        }
    }

    /// `first -> peak` in MiB.
    pub(super) fn memory(&self) -> String {
        let mib = |bytes: Option<f64>| {
            bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{:.1} MiB", bytes / MIB))
        };
        format!("{} before, {} at its peak", mib(self.first_rss), mib(self.peak_rss))
    }
}

/// Resident memory of the operator, in bytes.
pub(super) fn operator_rss(stack: &Stack, namespace: &str) -> Option<f64> {
    let selector = "app.kubernetes.io/name=millrace";
    let texts = metrics_of(stack, namespace, selector, OPERATOR_PORT);
    let rss = texts.iter().filter_map(|text| largest(text, "process_resident_memory_bytes"));
    rss.reduce(f64::max)
}

fn metrics_of(stack: &Stack, namespace: &str, selector: &str, port: u16) -> Vec<String> {
    let args = ["-n", namespace, "get", "pods", "-l", selector, "-o", "json"];
    let output = stack.kubectl(args).map_err(anyhow::Error::from);
    let text = output.and_then(|output| shell::said("kubectl", &output)).unwrap_or_default();
    let list: Value = serde_json::from_str(&text).unwrap_or_default();
    let names = list["items"].as_array().into_iter().flatten();
    let names = names.filter_map(|pod| pod["metadata"]["name"].as_str());
    names
        .filter_map(|name| {
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy/metrics");
            let output = stack.kubectl(["get", "--raw", &path]).ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        })
        .collect()
}

/// The largest sample of one name in a Prometheus text.
fn largest(text: &str, name: &str) -> Option<f64> {
    let samples = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with(['{', ' ']).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
    });
    samples.reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::largest;

    /// Scenario: labels, a longer name with the same beginning, a comment.
    /// Guarantee: only the samples of that very name count.
    #[test]
    fn only_samples_of_the_name_count() {
        let text = "# TYPE lag gauge\nlag{p=\"0\"} 1.5\nlag{p=\"1\"} 4\nlag_seconds 9\n";
        assert_eq!(largest(text, "lag"), Some(4.0));
        assert_eq!(largest(text, "absent"), None);
    }
}
