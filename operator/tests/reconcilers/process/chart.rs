//! What the chart says of the operator, held to the code.

use millrace_operator::cache::gateway_pods::PODS_BYTES_MAX;
use millrace_operator::kafka::SESSIONS_BYTES_MAX;
use millrace_operator::outbound::ANSWERS_BYTES_MAX;
use millrace_operator::reconcile::controller::RECONCILES_BYTES_MAX;
use serde::Deserialize;

const MIB: usize = 1024 * 1024;
/// Resident at rest with 10,000 pools (docs/internals/operator-performance.md).
const AT_REST: usize = 80 * MIB;

#[derive(Deserialize)]
struct Values {
    resources: Resources,
}

#[derive(Deserialize)]
struct Resources {
    limits: Memory,
}

#[derive(Deserialize)]
struct Memory {
    memory: String,
}

/// Scenario: the operator with all sessions, reconciles and answers that its own bounds allow, and
/// 10,000 pools. Guarantee: the chart's limit holds them, with no more than a tenth to spare, and its
/// comment has the sum and its parts.
#[test]
fn the_charts_memory_limit_is_the_sum_of_the_operators_bounds() {
    let text = include_str!("../../../../charts/millrace/values.yaml");
    let values: Values = serde_norway::from_str(text).unwrap();
    let limit = values.resources.limits.memory.strip_suffix("Mi").unwrap().to_owned();
    let limit = limit.parse::<usize>().unwrap() * MIB;
    let parts =
        [AT_REST, SESSIONS_BYTES_MAX, RECONCILES_BYTES_MAX, ANSWERS_BYTES_MAX, PODS_BYTES_MAX];
    let sum: usize = parts.iter().sum();
    assert!(sum <= limit && limit <= sum + sum / 10, "{sum} bytes of {limit}");
    let comment = text.split("# Resources of the operator.").nth(1).unwrap();
    let comment = comment.split("\nresources:").next().unwrap();
    for bytes in parts.into_iter().chain([sum]) {
        let rounded = bytes.div_ceil(MIB).to_string();
        assert!(comment.contains(&format!(" {rounded} ")), "{rounded} MiB: {comment}");
    }
}
