//! What each kind states of itself, in its own file; [`crate::with_kinds`] lists the kinds.
//! Definitions, reference pages, the table of conditions and the operator's checks follow from the
//! list, so that none of them can lack a kind.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::v1alpha1::{
    ClickHouseTarget, Engine, KafkaConnection, PrometheusReceiver, RolloutAction, Signal,
};

/// Longest name of a pipeline: a workload's name has at most 52 characters, and that of an edge
/// pool is the pipeline's, a dash, up to 16 of the pool's own name, and `-edge`.
pub(crate) const PIPELINE_NAME_LENGTH: usize = 30;

/// Longest name of a pool: a StatefulSet's pods carry the label controller-revision-hash, the
/// name with 11 characters more, and a label has at most 63.
pub(crate) const POOL_NAME_LENGTH: usize = 52;

/// Longest name of a topic or schema object: it is used as a label's value.
pub(crate) const OBJECT_NAME_LENGTH: usize = 63;

/// What each kind states of itself: the limits of its definition, and the parts of its spec that
/// code for all kinds reads.
pub trait MillraceKind: CustomResourceExt {
    /// Maximum length of an object's name.
    const NAME_LENGTH: usize;
    /// The introduction of the kind's reference page: its purpose and the smallest example.
    const INTRODUCTION: &'static str;

    /// Whether nothing but the status is written for it (`spec.paused`).
    fn is_paused(&self) -> bool;

    /// The holder whose resources it takes over (`spec.takesOver`).
    fn takes_over(&self) -> Option<&str> {
        None
    }

    /// What is done to its rollout (`spec.rolloutAction`).
    fn rollout_action(&self) -> Option<RolloutAction> {
        None
    }

    /// Its connection to Kafka.
    fn kafka(&self) -> Option<&KafkaConnection> {
        None
    }

    /// Its connection to ClickHouse.
    fn clickhouse(&self) -> Option<&ClickHouseTarget> {
        None
    }

    /// The targets that its pods scrape.
    fn prometheus(&self) -> Option<&PrometheusReceiver> {
        None
    }

    /// The engines of the tables that it declares.
    fn table_engines(&self) -> Vec<(Signal, Engine)> {
        Vec::new()
    }
}

macro_rules! define_kinds {
    ($($kind:ident),+) => {
        /// A kind of the API.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $(
                #[doc = concat!("[`crate::v1alpha1::", stringify!($kind), "`].")]
                $kind,
            )+
        }

        impl Kind {
            /// All of them, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// The name in `kind` of an object.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)+
                }
            }

            /// Maximum length of an object's name.
            pub(crate) const fn name_length(self) -> usize {
                match self {
                    $(Self::$kind => <$crate::v1alpha1::$kind as MillraceKind>::NAME_LENGTH,)+
                }
            }

            /// The introduction of the reference page.
            pub(crate) const fn introduction(self) -> &'static str {
                match self {
                    $(Self::$kind => <$crate::v1alpha1::$kind as MillraceKind>::INTRODUCTION,)+
                }
            }

            /// The definition as derived from the type.
            pub(crate) fn derived_definition(self) -> CustomResourceDefinition {
                match self {
                    $(Self::$kind => <$crate::v1alpha1::$kind as CustomResourceExt>::crd(),)+
                }
            }
        }
    };
}

crate::with_kinds!(define_kinds);
