//! Labels the open resource with the metadata of its pod.

use core::net::IpAddr;
use std::sync::Arc;

use millrace_wire::protobuf::Cursor;

use crate::edit::memory::{Memory, Ref};
use crate::edit::object::{find_slot, same_bytes};
use crate::edit::slot::Slot;
use crate::enrich::{OnConflict, PodAssociation, PodAttributes, PodKey, UnlabeledReason};
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::ottl::context::StatementContext;
use crate::program::EnrichStep;

impl Machine<'_> {
    /// Finds the pod of the open resource; `None` if records of this origin get no metadata.
    ///
    /// A resource that names its pod belongs to no other one, so an unknown name ends the search.
    /// An address that identifies no pod doesn't: a proxy may have it.
    pub(crate) fn find_pod(
        &self,
        step: &EnrichStep,
    ) -> Option<Result<Arc<PodAttributes>, UnlabeledReason>> {
        let pods = self.origin.pods?;
        let mut reason = UnlabeledReason::NoIdentity;
        for association in &step.association {
            let Some(key) = self.pod_key(step, *association) else { continue };
            reason = match pods.find_pod(key) {
                Ok(pod) => return Some(Ok(pod)),
                Err(UnlabeledReason::SharedAddress) => UnlabeledReason::SharedAddress,
                Err(reason) if *association == PodAssociation::Connection => reason,
                Err(reason) => return Some(Err(reason)),
            };
        }
        Some(Err(reason))
    }

    /// Returns what an association uses, if the request or its resource has it.
    fn pod_key(&self, step: &EnrichStep, association: PodAssociation) -> Option<PodKey<'_>> {
        let text = |key: Ref| {
            let text = self.text_attribute(StatementContext::Resource, key)?;
            std::str::from_utf8(text).ok().filter(|text| !text.is_empty())
        };
        Some(match association {
            PodAssociation::Connection => PodKey::Address(self.origin.client?),
            PodAssociation::PodUid => PodKey::Uid(text(step.keys.uid)?),
            PodAssociation::PodIp => {
                PodKey::Address(text(step.keys.ip)?.parse::<IpAddr>().ok()?.to_canonical())
            }
            PodAssociation::PodName => {
                PodKey::Name { namespace: text(step.keys.namespace)?, name: text(step.keys.name)? }
            }
        })
    }

    /// Sets a pod's attributes on the open resource. Returns whether that changed it.
    pub(crate) fn label_resource(
        &mut self,
        step: &EnrichStep,
        pod: &PodAttributes,
    ) -> Result<bool, RuleFailure> {
        let mark = self.memory.mark();
        let stored = self.memory.store(pod.bytes())?;
        let object = &mut self.objects[StatementContext::Resource.index()];
        let mut has_changed = false;
        let bytes = self.memory.get(stored);
        let mut cursor = Cursor::new(bytes);
        while !cursor.remaining().is_empty() {
            let start = bytes.len() - cursor.remaining().len();
            cursor.tag()?;
            let content = cursor.bytes()?;
            let end = bytes.len() - cursor.remaining().len();
            let raw = stored.part(start, end - start);
            let slot = Slot::parse(content, stored.locate(bytes, content), raw)?;
            has_changed |= put_label(&self.memory, &mut object.slots, slot, step.on_conflict);
        }
        object.is_changed |= has_changed;
        if !has_changed {
            self.memory.truncate(mark);
        }
        Ok(has_changed)
    }
}

/// Sets one attribute. Returns whether that changed something.
fn put_label(
    memory: &Memory<'_>,
    slots: &mut Vec<Slot>,
    label: Slot,
    on_conflict: OnConflict,
) -> bool {
    let Some(position) = find_slot(memory, slots, label.key) else {
        slots.push(label);
        return true;
    };
    let known = slots[position].value;
    if on_conflict == OnConflict::Keep && !known.is_empty() {
        return false;
    }
    let is_equal = same_bytes(memory.get(known), memory.get(label.value));
    if !is_equal {
        slots[position] = label;
    }
    // Which one of equal keys a reader uses is its choice, so a second one could carry a forged
    // value.
    let mut has_removed = false;
    while let Some(repeat) = find_slot(memory, &slots[position + 1..], label.key) {
        slots.remove(position + 1 + repeat);
        has_removed = true;
    }
    !is_equal || has_removed
}
