//! Reads a child's report, and whether it is about the child's newest spec. Pure.

use millrace_crds::v1alpha1::{
    ChildStatus, EdgePool, GatewayPool, TelemetrySchema, TelemetryTopic,
};
use millrace_crds::{Condition, ConditionStatus, ConditionType, Reason, find_condition, is_true};

/// A child's report about itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Child {
    pub(super) kind: &'static str,
    pub(super) name: String,
    generation: i64,
    observed_generation: Option<i64>,
    conditions: Vec<Condition>,
    held: Option<HoldReason>,
}

/// Why a child did not get the pipeline's desired spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HoldReason {
    Paused,
    /// The child must wait for another one, named here.
    WaitsFor(String),
}

/// A fact about a child: its status, reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) status: ConditionStatus,
    pub(super) reason: Reason,
    pub(super) message: String,
}

impl Fact {
    pub(super) fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }
}

/// Kinds that a pipeline owns: access to their metadata and status.
pub(super) trait ChildKind {
    const NAME: &'static str;
    fn parts(&self) -> (&kube::api::ObjectMeta, Option<i64>, &[Condition]);
}

macro_rules! kind {
    ($($type_:ty => $name:literal),+ $(,)?) => {$(
        impl ChildKind for $type_ {
            const NAME: &'static str = $name;
            fn parts(&self) -> (&kube::api::ObjectMeta, Option<i64>, &[Condition]) {
                let status = self.status.as_ref();
                (
                    &self.metadata,
                    status.and_then(|status| status.observed_generation),
                    status.map_or(&[], |status| &status.conditions),
                )
            }
        }
    )+};
}

kind!(
    TelemetryTopic => "TelemetryTopic",
    TelemetrySchema => "TelemetrySchema",
    EdgePool => "EdgePool",
    GatewayPool => "GatewayPool",
);

impl Child {
    /// Returns a child as read after applying.
    pub(super) fn from_object<K: ChildKind>(object: &K, held: Option<HoldReason>) -> Self {
        let (metadata, observed_generation, conditions) = object.parts();
        Self {
            kind: K::NAME,
            name: metadata.name.clone().unwrap_or_default(),
            // An object that was never stored has no generation; no observation can match this.
            generation: metadata.generation.unwrap_or(i64::MAX),
            observed_generation,
            conditions: conditions.to_vec(),
            held,
        }
    }

    /// Returns whether the child's own controller has reconciled its newest spec.
    pub(super) fn up_to_date(&self) -> bool {
        self.held.is_none() && self.observed_generation == Some(self.generation)
    }

    /// Returns the child's condition `type_`, if it is about its newest spec.
    pub(super) fn current_fact(&self, type_: ConditionType) -> Fact {
        let (kind, name) = (self.kind, &self.name);
        let not = |reason, message| Fact { status: ConditionStatus::False, reason, message };
        match &self.held {
            Some(HoldReason::Paused) => {
                let message = format!("{kind} {name} differs from the pipeline, which is paused");
                return not(Reason::PausedBySpec, message);
            }
            Some(HoldReason::WaitsFor(first)) => {
                return not(Reason::Waiting, format!("{kind} {name} waits for {first}"));
            }
            None => {}
        }
        if self.observed_generation.is_none() {
            return not(Reason::NotObserved, format!("{kind} {name} has not been reconciled yet"));
        }
        if !self.up_to_date() {
            let message = format!("{kind} {name}: its newest spec has not been reconciled yet");
            return not(Reason::ChildOutOfDate, message);
        }
        let Some(condition) = find_condition(&self.conditions, type_) else {
            return not(Reason::NotObserved, format!("{kind} {name} has not reported {type_} yet"));
        };
        if is_true(&self.conditions, type_, self.generation) {
            let reason = Reason::AllReady;
            return Fact { status: ConditionStatus::True, reason, message: String::new() };
        }
        if condition.observed_generation != self.generation {
            let message = format!("{kind} {name}: {type_} is about an older spec");
            return not(Reason::ChildOutOfDate, message);
        }
        let reason = Reason::parse(&condition.reason).unwrap_or(Reason::ChildNotReady);
        // The child's own Ready already has the underlying reason.
        Fact {
            status: condition.status,
            reason,
            message: format!("{kind} {name}: {}", condition.message),
        }
    }

    /// Returns the child's condition `type_`, of any spec: for lasting facts.
    pub(super) fn lasting_fact(&self, type_: ConditionType) -> Option<Fact> {
        let condition = find_condition(&self.conditions, type_)?;
        Some(Fact {
            status: condition.status,
            reason: Reason::parse(&condition.reason).unwrap_or(Reason::NotObserved),
            message: format!("{} {}: {}", self.kind, self.name, condition.message),
        })
    }

    /// Returns whether the child's condition `type_` is current and false.
    pub(super) fn is_currently_false(&self, type_: ConditionType) -> bool {
        self.up_to_date()
            && find_condition(&self.conditions, type_)
                .is_some_and(|it| it.status == ConditionStatus::False)
    }

    /// Returns whether the child reports, about its newest spec, that it is stalled.
    pub(super) fn is_stalled(&self) -> bool {
        self.up_to_date() && is_true(&self.conditions, ConditionType::Stalled, self.generation)
    }

    /// Returns the line about this child in the pipeline's status.
    pub(super) fn to_status(&self) -> ChildStatus {
        let ready = self.current_fact(ConditionType::Ready);
        ChildStatus {
            kind: self.kind.to_owned(),
            name: self.name.clone(),
            ready: ready.is_true(),
            reason: ready.reason.as_str().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
