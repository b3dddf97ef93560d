//! Lists recent events of a pipeline's objects and pods.
//!
//! Two lists, each with a field selector and a limit: those that this operator publishes, and
//! warnings about pods. An event has some 1 kB, so a reading takes 500 kB at most.

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use millrace_reports::facts::{EventFacts, Facts, Gap};

use crate::context::Context;
use crate::error::error_chain;

/// What is listed, by field selector.
const SELECTORS: [&str; 2] =
    ["reportingController=millrace-operator", "regarding.kind=Pod,type=Warning"];
/// Maximum events of each list.
const LISTED_MAX: u32 = 250;

/// Returns the events of a namespace that [`SELECTORS`] match, and what could not be listed.
pub(super) async fn list_events(
    context: &Context,
    namespace: &str,
) -> (Vec<EventFacts>, Option<Gap>) {
    let api: Api<Event> = Api::namespaced(context.client.clone(), namespace);
    let mut events = Vec::new();
    let mut gap = None;
    for selector in SELECTORS {
        let params = ListParams::default().fields(selector).limit(LISTED_MAX);
        let why = match api.list(&params).await {
            Ok(listed) => {
                events.extend(listed.items.iter().filter_map(EventFacts::from_event));
                let is_partial = listed.metadata.continue_.is_some_and(|token| !token.is_empty());
                is_partial.then(|| {
                    format!(
                        "the namespace has more than {LISTED_MAX}; kubectl events --namespace \
                         {namespace} lists them"
                    )
                })
            }
            Err(error) => Some(error_chain(&error)),
        };
        gap = gap.or(why.map(|why| Gap { what: "all events".to_owned(), why }));
    }
    (events, gap)
}

/// Returns the events of a pipeline's objects and pods, the newest first, each once.
pub(super) fn events_of(facts: &Facts, mut events: Vec<EventFacts>) -> Vec<EventFacts> {
    events.retain(|event| facts.has_object_of(event));
    events.sort_by(|a, b| b.at_second.cmp(&a.at_second).then_with(|| a.name.cmp(&b.name)));
    events.dedup();
    events
}
