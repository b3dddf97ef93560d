//! Judges the weights of namespaces.

use std::collections::HashMap;

use super::Judge;
use crate::{ContainersReceiver, NamespaceWeight};

/// Most namespaces with a weight of their own: as many as may be named to be read.
const WEIGHTS_MAX: usize = 64;

impl Judge<'_> {
    pub(super) fn weights(&mut self, containers: &ContainersReceiver) {
        let ContainersReceiver { namespaces, exclude_namespaces, weights, .. } = containers;
        let field = "receivers.containers.weights";
        if weights.len() > WEIGHTS_MAX {
            self.say(field, format!("{} entries: write {WEIGHTS_MAX} at most", weights.len()));
        }
        let mut seen = HashMap::new();
        for (index, NamespaceWeight { namespace, weight }) in weights.iter().enumerate() {
            let field = format!("{field}[{index}]");
            self.range(&format!("{field}.weight"), *weight, 1..=100);
            let field = format!("{field}.namespace");
            if namespace.is_empty() {
                self.say(&field, "no namespace is named: write its name");
            } else if let Some(other) = seen.insert(namespace, index) {
                self.say(
                    &field,
                    format!("`{namespace}` is also in weights[{other}]: write it once"),
                );
            } else if !namespaces.is_empty() && !namespaces.contains(namespace)
                || exclude_namespaces.contains(namespace)
            {
                let message = format!("the pods of `{namespace}` aren't read: leave it out");
                self.say(&field, message);
            }
        }
    }
}
