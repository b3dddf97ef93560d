//! Ranks the services that send the most bytes, from the estimates of a pipeline's edge pods.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A pod's estimate, as its page `/producers` states it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ProducerSample {
    /// The seconds in which the bytes came.
    pub seconds: f64,
    /// The heaviest producers.
    pub producers: Vec<ProducedBytes>,
}

/// The bytes of a producer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ProducedBytes {
    /// `service.name`; empty without one.
    pub service: String,
    /// `k8s.namespace.name`; empty without one.
    pub namespace: String,
    /// Bytes of OTLP, uncompressed and after rules.
    pub bytes: u64,
}

/// The producers of a pipeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProducerReport {
    /// The producers, the heaviest first.
    pub producers: Vec<ProducerRate>,
    /// Edge pods that reported.
    pub answered: usize,
    /// Edge pods that run.
    pub pods: usize,
}

/// A producer's rate.
#[derive(Clone, Debug, PartialEq)]
pub struct ProducerRate {
    /// `service.name`; empty without one.
    pub service: String,
    /// `k8s.namespace.name`; empty without one.
    pub namespace: String,
    /// Bytes per second over all pods.
    pub bytes_per_second: f64,
    /// Its share of the bytes of all that pods report, from 0 to 1.
    pub share: f64,
}

/// Adds up the samples of `pods` edge pods. Each pod's bytes are divided by its own seconds.
#[must_use]
pub fn rank_producers(samples: &[ProducerSample], pods: usize) -> ProducerReport {
    let mut rates: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.seconds > 0.0) {
        for ProducedBytes { service, namespace, bytes } in &sample.producers {
            *rates.entry((service, namespace)).or_default() += *bytes as f64 / sample.seconds;
        }
    }
    let all: f64 = rates.values().sum();
    let mut producers: Vec<ProducerRate> = rates
        .into_iter()
        .filter(|(_, rate)| *rate > 0.0)
        .map(|((service, namespace), bytes_per_second)| ProducerRate {
            service: service.to_owned(),
            namespace: namespace.to_owned(),
            bytes_per_second,
            share: bytes_per_second / all,
        })
        .collect();
    // The sort is stable: equal rates stay in the order of names.
    producers.sort_by(|a, b| b.bytes_per_second.total_cmp(&a.bytes_per_second));
    ProducerReport { producers, answered: samples.len(), pods }
}

#[cfg(test)]
mod tests {
    use super::{ProducedBytes, ProducerSample, rank_producers};

    fn sample(seconds: f64, producers: &[(&str, &str, u64)]) -> ProducerSample {
        let one = |(service, namespace, bytes): &(&str, &str, u64)| ProducedBytes {
            service: (*service).to_owned(),
            namespace: (*namespace).to_owned(),
            bytes: *bytes,
        };
        ProducerSample { seconds, producers: producers.iter().map(one).collect() }
    }

    /// Scenario: two pods of different age report, one just started, one doesn't answer. Guarantee:
    /// rates add up by service and namespace, the heaviest first, with shares of the sum.
    #[test]
    fn rates_of_pods_add_up_by_producer() {
        let samples = [
            sample(100.0, &[("cart", "shop", 3_000), ("cart", "test", 1_000), ("", "", 0)]),
            sample(10.0, &[("cart", "shop", 300), ("search", "shop", 1_000)]),
            sample(0.0, &[("cart", "shop", 9)]),
        ];
        let report = rank_producers(&samples, 4);
        assert_eq!((report.answered, report.pods), (3, 4));
        let found: Vec<_> = report
            .producers
            .iter()
            .map(|it| (&*it.service, &*it.namespace, it.bytes_per_second, it.share))
            .collect();
        assert_eq!(
            found,
            [
                ("search", "shop", 100.0, 100.0 / 170.0),
                ("cart", "shop", 60.0, 60.0 / 170.0),
                ("cart", "test", 10.0, 10.0 / 170.0),
            ]
        );
        assert_eq!(rank_producers(&[], 0).producers, []);
    }
}
