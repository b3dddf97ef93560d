//! Objects of our own kinds from their controllers' stores, so that a pipeline reads its children
//! here and not from the API server.
//!
//! They may be behind: [`crate::cluster`] compares their version with what the owner's watch
//! reported. Read only; keeps nothing alive that a controller does not.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Resource;
use kube::runtime::reflector::{ObjectRef, Store};

use crate::cache::packed::Packed;

type Shelf = Vec<Box<dyn Any + Send + Sync>>;

/// One store for each kind and place.
#[derive(Default)]
pub struct Stores {
    shelves: Mutex<HashMap<TypeId, Shelf>>,
}

impl Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}

impl Stores {
    /// Adds the store of a controller that begins.
    pub fn add<K>(&self, store: Store<Packed<K>>)
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.entry(TypeId::of::<K>()).or_default().push(Box::new(store));
    }

    /// The object in its controller's store, if its kind has a controller.
    #[must_use]
    pub fn get<K>(&self, namespace: &str, name: &str) -> Option<Arc<Packed<K>>>
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        let shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = ObjectRef::<Packed<K>>::new(name).within(namespace);
        let stores = shelves.get(&TypeId::of::<K>())?.iter();
        stores
            .filter_map(|store| store.downcast_ref::<Store<Packed<K>>>())
            .find_map(|store| store.get(&wanted))
    }

    /// All objects of a kind.
    #[must_use]
    pub fn all<K>(&self) -> Vec<Arc<Packed<K>>>
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        let shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let stores = shelves.get(&TypeId::of::<K>()).into_iter().flatten();
        stores
            .filter_map(|store| store.downcast_ref::<Store<Packed<K>>>())
            .flat_map(Store::state)
            .collect()
    }
}
