//! The order of steps: one list for all signals, in which each pipeline's processors have its own
//! order, as far as the pipelines agree.

use millrace_crds::v1alpha1::ProcessingStep;

use crate::service::{Pipeline, ServiceSection};

/// Returns the steps in the order of the pipelines' processors. Where two pipelines disagree, the
/// one that is first in the file counts.
pub(crate) fn order_steps(
    steps: Vec<(String, ProcessingStep)>,
    service: &ServiceSection<'_>,
) -> Vec<ProcessingStep> {
    let order = merged_order(service);
    let mut steps = steps;
    // Stable: the steps of one processor stay as they are.
    steps.sort_by_key(|(id, _)| order.iter().position(|one| one == id));
    steps.into_iter().map(|(_, step)| step).collect()
}

/// Returns the carried pipelines that list processors in another order than the steps have.
pub(crate) fn differing_pipelines(service: &ServiceSection<'_>, converted: &[&str]) -> Vec<usize> {
    let order = merged_order(service);
    let index = |id: &String| order.iter().position(|one| one == id);
    let differs = |pipeline: &Pipeline<'_>| {
        let mut listed = pipeline.processors.iter().filter(|id| converted.contains(&id.as_str()));
        !listed.clone().is_sorted_by_key(&index) && listed.next().is_some()
    };
    let all = service.pipelines.iter().enumerate().filter(|(_, it)| it.is_carried && differs(it));
    all.map(|(number, _)| number).collect()
}

/// Merges the carried pipelines' lists: each next one's ids go before the first of its later ids
/// that is listed already.
fn merged_order(service: &ServiceSection<'_>) -> Vec<String> {
    let mut merged: Vec<String> = Vec::new();
    for pipeline in service.pipelines.iter().filter(|it| it.is_carried) {
        let mut begin = 0;
        for (number, id) in pipeline.processors.iter().enumerate() {
            if let Some(position) = merged.iter().position(|one| one == id) {
                begin = begin.max(position + 1);
                continue;
            }
            let later = pipeline.processors.iter().skip(number + 1);
            let before = later.filter_map(|next| merged.iter().position(|one| one == next)).min();
            let position = before.map_or(merged.len(), |position| position.max(begin));
            merged.insert(position, id.clone());
            begin = begin.max(position + 1);
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Node, ValuePath};

    fn merged(lists: &str) -> String {
        let text = format!("service: {{pipelines: {lists}}}");
        let value = serde_norway::from_str(&text).unwrap();
        let node = Node { path: ValuePath::default(), value: &value };
        merged_order(&ServiceSection::read(&node).unwrap()).join(" ")
    }

    /// Scenario: pipelines that share processors, in orders that agree and that don't. Guarantee:
    /// each list's own order, as far as the first ones allow it.
    #[test]
    fn each_pipelines_order_is_retained() {
        let cases = [
            ("{traces: {processors: [a, b]}, logs: {processors: [b, c]}}", "a b c"),
            ("{traces: {processors: [a, c]}, logs: {processors: [a, b, c]}}", "a b c"),
            ("{traces: {processors: [b]}, logs: {processors: [a, b, c]}}", "a b c"),
            ("{traces: {processors: [a, b]}, logs: {processors: [b, a]}}", "a b"),
            ("{traces: {processors: [x]}, logs: {processors: [a, b]}}", "x a b"),
        ];
        for (lists, expected) in cases {
            assert_eq!(merged(lists), expected, "{lists}");
        }
    }
}
