//! User control of existing objects: fields of their spec, so that whoever may change the object
//! may use it, and the audit log records it.

use crate::v1alpha1::{
    EdgePool, GatewayPool, RolloutAction, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
};

/// An object that users may pause, or let take over what another object holds.
pub trait Controlled {
    /// Whether nothing but the status is written for it (`spec.paused`).
    fn is_paused(&self) -> bool;

    /// The holder whose things it takes over (`spec.takesOver`).
    fn takes_over(&self) -> Option<&str> {
        None
    }

    /// What is done to its rollout (`spec.rolloutAction`).
    fn rollout_action(&self) -> Option<RolloutAction> {
        None
    }
}

impl Controlled for TelemetryPipeline {
    fn is_paused(&self) -> bool {
        self.spec.paused
    }
}

impl Controlled for EdgePool {
    fn is_paused(&self) -> bool {
        self.spec.paused
    }

    fn rollout_action(&self) -> Option<RolloutAction> {
        self.spec.rollout_action
    }
}

impl Controlled for GatewayPool {
    fn is_paused(&self) -> bool {
        self.spec.paused
    }

    fn takes_over(&self) -> Option<&str> {
        self.spec.takes_over.as_deref()
    }

    fn rollout_action(&self) -> Option<RolloutAction> {
        self.spec.rollout_action
    }
}

impl Controlled for TelemetryTopic {
    fn is_paused(&self) -> bool {
        self.spec.paused
    }

    fn takes_over(&self) -> Option<&str> {
        self.spec.takes_over.as_deref()
    }
}

impl Controlled for TelemetrySchema {
    fn is_paused(&self) -> bool {
        self.spec.paused
    }

    fn takes_over(&self) -> Option<&str> {
        self.spec.takes_over.as_deref()
    }
}
