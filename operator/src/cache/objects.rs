//! Objects of our own kinds from their controllers' stores, so that a pipeline reads its children
//! here and not from the API server.
//!
//! They may be behind: [`crate::cluster`] compares their version with what the owner's watch
//! reported. Read only; retains nothing that a controller does not.

pub mod children;
pub mod packed;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Resource;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::watch;

use crate::cache::objects::packed::Packed;

/// A store, and the state of its first list.
struct KindStore {
    store: Box<dyn Any + Send + Sync>,
    first_list: watch::Receiver<FirstList>,
}

/// The state of a store's first list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstList {
    Unanswered,
    Refused,
    Read,
}

/// Held by a store's controller until all of its objects were read once, or until it ends. kube's
/// own `Store::wait_until_ready` wakes only one waiter, which is the controller.
#[derive(Debug)]
pub struct FirstListGuard(watch::Sender<FirstList>);

impl FirstListGuard {
    /// Records that all objects of the store were read.
    pub fn mark_read(&self) {
        self.0.send_replace(FirstList::Read);
    }

    /// Records that the API server refuses the first list, so that one namespace without rights
    /// doesn't stop all others. Returns whether this is the first refusal.
    pub fn mark_refused(&self) -> bool {
        self.0.send_if_modified(|first| {
            let is_unanswered = *first == FirstList::Unanswered;
            if is_unanswered {
                *first = FirstList::Refused;
            }
            is_unanswered
        })
    }
}

impl Drop for FirstListGuard {
    fn drop(&mut self) {
        self.mark_read();
    }
}

/// The stores of all kinds: one for each watched namespace, or one for the cluster.
#[derive(Default)]
pub struct Stores {
    shelves: Mutex<HashMap<TypeId, Vec<KindStore>>>,
}

impl Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}

impl Stores {
    /// Adds the store of a controller that starts.
    pub fn add_store<K>(&self, store: Store<Packed<K>>) -> FirstListGuard
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        let (sender, first_list) = watch::channel(FirstList::Unanswered);
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let stores = shelves.entry(TypeId::of::<K>()).or_default();
        stores.push(KindStore { store: Box::new(store), first_list });
        FirstListGuard(sender)
    }

    /// Waits until all objects of a kind were read once, in all stores whose list isn't refused.
    /// Returns whether it had to wait.
    pub async fn wait_until_read<K: 'static>(&self) -> bool {
        let mut lists = self.first_lists::<K>();
        lists.retain(|list| *list.borrow() == FirstList::Unanswered);
        for list in &mut lists {
            // A controller that ends marks its list.
            let _ = list.wait_for(|first| *first != FirstList::Unanswered).await;
        }
        !lists.is_empty()
    }

    /// Returns all objects of a kind, if it has controllers and all its stores were read: the
    /// objects of a store whose list is refused exist but are unknown.
    #[must_use]
    pub fn if_read<K>(&self) -> Option<Vec<Arc<Packed<K>>>>
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        let lists = self.first_lists::<K>();
        let is_read = lists.iter().all(|list| *list.borrow() == FirstList::Read);
        (is_read && !lists.is_empty()).then(|| self.all_objects::<K>())
    }

    fn first_lists<K: 'static>(&self) -> Vec<watch::Receiver<FirstList>> {
        let shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let stores = shelves.get(&TypeId::of::<K>()).into_iter().flatten();
        stores.map(|it| it.first_list.clone()).collect()
    }

    /// Returns the object from its controller's store, if its kind has a controller.
    #[must_use]
    pub fn get<K>(&self, namespace: &str, name: &str) -> Option<Arc<Packed<K>>>
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        let key = ObjectRef::<Packed<K>>::new(name).within(namespace);
        self.stores_of::<K>().iter().find_map(|store| store.get(&key))
    }

    /// Returns all objects of a kind.
    #[must_use]
    pub fn all_objects<K>(&self) -> Vec<Arc<Packed<K>>>
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        self.stores_of::<K>().iter().flat_map(Store::state).collect()
    }

    fn stores_of<K>(&self) -> Vec<Store<Packed<K>>>
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        let shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let stores = shelves.get(&TypeId::of::<K>()).into_iter().flatten();
        stores.filter_map(|it| it.store.downcast_ref::<Store<Packed<K>>>().cloned()).collect()
    }
}
