//! Objects of our own kinds from their controllers' stores, so that a pipeline reads its children
//! here and not from the API server.
//!
//! They may be behind: [`crate::cluster`] compares their version with what the owner's watch
//! reported. Read only; retains nothing that a controller does not.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Resource;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::watch;

use crate::cache::packed::Packed;

/// The stores of a kind, and how many of them lack their first list.
struct KindStores {
    stores: Vec<Box<dyn Any + Send + Sync>>,
    lists: watch::Sender<Lists>,
}

/// How many stores have no first list yet, and for how many the API server refuses it.
#[derive(Clone, Copy, Debug, Default)]
struct Lists {
    unanswered: usize,
    refused: usize,
}

/// The state of a store's first list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstList {
    Unanswered,
    Refused,
    Read,
}

impl Lists {
    fn move_store(&mut self, before: FirstList, now: FirstList) {
        match before {
            FirstList::Unanswered => self.unanswered -= 1,
            FirstList::Refused => self.refused -= 1,
            FirstList::Read => {}
        }
        match now {
            FirstList::Unanswered => self.unanswered += 1,
            FirstList::Refused => self.refused += 1,
            FirstList::Read => {}
        }
    }
}

/// Held by a store's controller until all of its objects were read once, or until it ends. kube's
/// own `Store::wait_until_ready` wakes only one waiter, which is the controller.
#[derive(Debug)]
pub struct FirstListGuard {
    first: Mutex<FirstList>,
    lists: watch::Sender<Lists>,
}

impl FirstListGuard {
    /// Records that all objects of the store were read.
    pub fn mark_read(&self) {
        self.set_first_list(FirstList::Read);
    }

    /// Records that the API server refuses the first list, so that one namespace without rights
    /// doesn't stop all others. Returns whether this is the first refusal.
    pub fn mark_refused(&self) -> bool {
        let is_unanswered =
            *self.first.lock().unwrap_or_else(PoisonError::into_inner) == FirstList::Unanswered;
        if is_unanswered {
            self.set_first_list(FirstList::Refused);
        }
        is_unanswered
    }

    fn set_first_list(&self, now: FirstList) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *first, now);
        if before != now {
            self.lists.send_modify(|lists| lists.move_store(before, now));
        }
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
    shelves: Mutex<HashMap<TypeId, KindStores>>,
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
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let none = || KindStores { stores: Vec::new(), lists: watch::Sender::default() };
        let shelf = shelves.entry(TypeId::of::<K>()).or_insert_with(none);
        shelf.stores.push(Box::new(store));
        shelf.lists.send_modify(|lists| lists.unanswered += 1);
        FirstListGuard { first: Mutex::new(FirstList::Unanswered), lists: shelf.lists.clone() }
    }

    /// Waits until all objects of a kind were read once, in all stores whose list isn't refused.
    /// Returns whether it had to wait.
    pub async fn wait_until_read<K: 'static>(&self) -> bool {
        let lists = {
            let shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
            shelves.get(&TypeId::of::<K>()).map(|shelf| shelf.lists.subscribe())
        };
        let Some(mut lists) = lists.filter(|lists| lists.borrow().unanswered > 0) else {
            return false;
        };
        // The stores keep the sender alive.
        let _ = lists.wait_for(|lists| lists.unanswered == 0).await;
        true
    }

    /// Returns all objects of a kind, if it has controllers and all its stores were read: the
    /// objects of a store whose list is refused exist but are unknown.
    #[must_use]
    pub fn if_read<K>(&self) -> Option<Vec<Arc<Packed<K>>>>
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        let is_read = |shelf: &KindStores| {
            let Lists { unanswered, refused } = *shelf.lists.borrow();
            unanswered == 0 && refused == 0
        };
        let is_read = {
            let shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
            shelves.get(&TypeId::of::<K>()).is_some_and(is_read)
        };
        is_read.then(|| self.all_objects::<K>())
    }

    /// Returns the object from its controller's store, if its kind has a controller.
    #[must_use]
    pub fn get<K>(&self, namespace: &str, name: &str) -> Option<Arc<Packed<K>>>
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        let shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = ObjectRef::<Packed<K>>::new(name).within(namespace);
        let stores = shelves.get(&TypeId::of::<K>())?.stores.iter();
        stores
            .filter_map(|store| store.downcast_ref::<Store<Packed<K>>>())
            .find_map(|store| store.get(&wanted))
    }

    /// Returns all objects of a kind.
    #[must_use]
    pub fn all_objects<K>(&self) -> Vec<Arc<Packed<K>>>
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        let shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let stores = shelves.get(&TypeId::of::<K>()).into_iter().flat_map(|it| &it.stores);
        stores
            .filter_map(|store| store.downcast_ref::<Store<Packed<K>>>())
            .flat_map(Store::state)
            .collect()
    }
}
