//! What of the stack runs now, for people and for `up`.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use super::{Stack, health};
use crate::component::Component;
use crate::versions;

/// A look at the stack.
#[derive(Debug, Clone)]
pub struct Status {
    node: bool,
    same_version: bool,
    components: Vec<(Component, State)>,
    kubeconfig: PathBuf,
}

/// How one component fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It runs and answers.
    Ready,
    /// It runs; what it lacks.
    NotReady(String),
    /// It does not run.
    Down,
}

impl Status {
    pub(super) fn of(stack: &Stack) -> Self {
        let node = stack.node.is_running();
        let look = |component: Component| {
            if !node || !stack.node.is_alive(component.name()) {
                return State::Down;
            }
            health::check(stack, component).map_or_else(State::NotReady, |()| State::Ready)
        };
        let components =
            Component::ALL.into_iter().map(|component| (component, look(component))).collect();
        let version = fs::read_to_string(stack.paths.state().join("version"));
        let same_version = version.is_ok_and(|version| version == versions::fingerprint());
        Self { node, same_version, components, kubeconfig: stack.kubeconfig() }
    }

    /// Whether every component runs and answers, and is of this program's versions.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.node
            && self.same_version
            && self.components.iter().all(|(_, state)| *state == State::Ready)
    }

    /// Whether nothing of it runs.
    #[must_use]
    pub fn is_down(&self) -> bool {
        !self.node
    }

    /// Every component with its state.
    #[must_use]
    pub fn components(&self) -> &[(Component, State)] {
        &self.components
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (component, state) in &self.components {
            let state = match state {
                State::Ready => "ready",
                State::NotReady(why) => &format!("not ready: {}", why.trim()),
                State::Down => "down",
            };
            writeln!(f, "{:<24} {state}", component.name())?;
        }
        match self.is_up() {
            true => write!(f, "up; export KUBECONFIG={}", self.kubeconfig.display()),
            false if self.is_down() => write!(f, "down"),
            false => write!(f, "partly up: `millrace-stack up` goes on from here"),
        }
    }
}
