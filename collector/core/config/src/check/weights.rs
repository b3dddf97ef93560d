//! Judges the weights of namespaces.

use std::collections::HashMap;

use super::Checker;
use crate::{ContainersReceiver, NamespaceWeight};

/// Most namespaces with a weight of their own: as many as may be named to be read.
const WEIGHTS_MAX: usize = 64;

impl Checker<'_> {
    pub(super) fn check_weights(&mut self, containers: &ContainersReceiver) {
        let ContainersReceiver { namespaces, exclude_namespaces, weights, .. } = containers;
        let field = "receivers.containers.weights";
        if weights.len() > WEIGHTS_MAX {
            self.add_problem(
                field,
                format!("{} entries: use at most {WEIGHTS_MAX}", weights.len()),
            );
        }
        let mut seen = HashMap::new();
        for (index, NamespaceWeight { namespace, weight }) in weights.iter().enumerate() {
            let field = format!("{field}[{index}]");
            self.check_range(&format!("{field}.weight"), *weight, 1..=100);
            let field = format!("{field}.namespace");
            if namespace.is_empty() {
                self.add_problem(&field, "the namespace's name is missing: set it");
            } else if let Some(other) = seen.insert(namespace, index) {
                self.add_problem(
                    &field,
                    format!("`{namespace}` is also in weights[{other}]: remove one of them"),
                );
            } else if !namespaces.is_empty() && !namespaces.contains(namespace)
                || exclude_namespaces.contains(namespace)
            {
                let message = format!("the pods of `{namespace}` are not read: remove the weight");
                self.add_problem(&field, message);
            }
        }
    }
}
