//! Bounds the reconciles of each kind, in all watched namespaces together. Each namespace has its
//! own controllers, whose bounds alone would add up.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of all kinds.
#[derive(Debug, Default)]
pub struct Slots {
    kinds: Mutex<HashMap<TypeId, Arc<Semaphore>>>,
}

impl Slots {
    /// Waits for one of the `limit` slots of a kind, named by its reconciler's type. Returns it,
    /// and whether it had to wait.
    pub(crate) async fn acquire(
        &self,
        kind: TypeId,
        limit: usize,
    ) -> (Option<OwnedSemaphorePermit>, bool) {
        let slots = {
            let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Semaphore::new(limit));
            kinds.entry(kind).or_insert_with(new).clone()
        };
        match slots.clone().try_acquire_owned() {
            Ok(slot) => (Some(slot), false),
            // It is never closed, so the wait always ends with a slot.
            Err(_) => (slots.acquire_owned().await.ok(), true),
        }
    }
}
