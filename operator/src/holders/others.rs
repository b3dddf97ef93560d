//! What the records of topics, groups and tables have in common: whose count, and that there are
//! none.

use kube::Resource;
use millrace_crds::EventReason;

use crate::cache::key_of;
use crate::context::Context;
use crate::report::events::Notice;

/// Returns whether a record's holder is no obstacle: this process would observe it, and no such
/// object exists, or it claims something else, or it is younger.
pub(super) fn is_passed_over<K: Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    who: &str,
) -> bool {
    let watched = context.holders.watched_key(who);
    watched.is_some_and(|key| !context.claims.is_held_by(object, &key))
}

/// Reports, once, that there is no record of what an object holds.
pub(super) async fn report_unrecorded<K: Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    why: &str,
) {
    {
        let mut states = context.holders.lock_cached();
        let reported = &mut states.entry(key_of(object)).or_default().unrecorded;
        if reported.as_deref() == Some(why) {
            return;
        }
        *reported = Some(why.to_owned());
    }
    tracing::warn!(object = key_of(object), why, "the holder is not recorded");
    let note = format!(
        "the holder is not recorded, so another cluster does not detect this object: {why}"
    );
    let notice = Notice::warning(EventReason::HolderNotRecorded, "Observe", note);
    context.events.publish(&object.object_ref(&()), notice).await;
}
