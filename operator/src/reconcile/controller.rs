//! The loop around every kind's reconciler: one run per object, time limit, back-off, metrics.
//!
//! A kind implements [`Reconciler`]. The loop isolates objects that do not parse, skips objects
//! being deleted (unless the kind has finalizers), turns failures into delays, and lets no object
//! stop another. A standby replica watches all that a leader does and reconciles nothing. It knows
//! nothing of a kind's work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use kube::Resource;
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::controller::{self, Action, Controller};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use millrace_crds::v1alpha1::{EdgePool, GatewayPool};
use millrace_crds::{EventReason, Reason};
use millrace_observe::otlp::{SPANS, Trace};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;
use tracing::field::Empty;

use crate::cache::claims::Claim;
use crate::cache::packed::Packed;
use crate::cache::{self, key_of};
use crate::cluster::{Applicable, state_unknown};
use crate::context::Context;
use crate::error::{Category, Step, StepError, chain};
use crate::holders;
use crate::pods::pages::PAGE;
use crate::reconcile::finalizer;
use crate::reconcile::next::Next;
use crate::reconcile::place::Place;
use crate::reconcile::watches::{Tell, Watching, apart};
use crate::report::events::Notice;

/// A reconcile that takes longer is cut off and retried: a hanging endpoint must not hold a slot
/// for ever. The slowest legitimate step, a schema migration, resumes where it stopped.
const RECONCILE_SECONDS_MAX: u64 = 120;
/// Reporting a failed reconcile takes two requests, and at most this long.
const TELLING_MAX: Duration = Duration::from_secs(10);
/// Reconciles of one kind at once, unless it says otherwise. Each holds a few API answers (under
/// 100 KiB), so the bound also bounds memory: (3 kinds * 16 + 2 * 64) * 100 KiB = 18 MiB. A
/// reconcile that writes waits for about six answers in a row, so at 15 ms each sixteen at once are
/// 170 a second.
const CONCURRENCY: u16 = 16;

/// What a kind brings: which children it watches and how it reconciles one object.
pub trait Reconciler: Send + Sync + 'static {
    /// The kind.
    type Object: Applicable;

    /// Whether the kind has finalizers and so wants to see objects being deleted.
    const HANDLES_DELETION: bool = false;

    /// How many objects of the kind are reconciled at once.
    const CONCURRENCY: u16 = CONCURRENCY;

    /// Whether its objects claim something outside Kubernetes.
    const CLAIMS: bool = false;

    /// What an object claims outside Kubernetes.
    fn claim(_object: &Self::Object) -> Option<Claim> {
        None
    }

    /// Adds the watches of children, one for each of their kinds.
    fn watches(watching: Watching<Self::Object>) -> Watching<Self::Object>;

    /// Observe, validate, build, apply, status, for one object.
    fn reconcile(
        context: &Context,
        object: &Self::Object,
    ) -> impl Future<Output = Result<Next, StepError>> + Send;
}

/// Runs the controller of `R` in `place` until `stop` resolves and its running reconciles end.
/// While `leads` is false it only watches, so that a replica that takes over has a full cache.
pub async fn run<R: Reconciler>(
    context: Arc<Context>,
    place: Place,
    leads: watch::Receiver<bool>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let kind = R::Object::kind(&()).into_owned();
    let (store, writer) = reflector::store();
    let own = watcher::Config::default().page_size(PAGE);
    let own = watcher(place.api::<Packed<R::Object>>(), own);
    let own = apart(&kind, &kind, &context.metrics, own).reflect(writer);
    let told = context.clone();
    let own = own.touched_objects().inspect_ok(move |object| {
        told.queue_times.woken(key_of(object));
        // All are noted before the first is reconciled, so claims know the oldest.
        if R::CLAIMS
            && let Ok(object) = &object.unpack().0
        {
            note_claim::<R>(&told, object);
        }
    });
    context.stores.add::<R::Object>(store.clone());
    let controller = Controller::for_stream(own, store);
    let watching = Watching::new(controller, place, Tell::of(&context), context.metrics.clone());
    let controller = R::watches(watching)
        .into_controller()
        .with_config(controller::Config::default().concurrency(R::CONCURRENCY))
        .graceful_shutdown_on(stop);
    let figures = context.metrics.clone();
    let forget = context.clone();
    controller
        .run(
            move |packed, context| unpacked::<R>(packed, context, leads.clone()),
            error_policy::<R>,
            context,
        )
        .for_each(|outcome| {
            match outcome {
                Ok(_) | Err(controller::Error::ReconcilerFailed(..)) => {}
                Err(controller::Error::ObjectNotFound(gone)) => {
                    let namespace = gone.namespace.as_deref().unwrap_or_default();
                    let key = cache::key(&kind, namespace, &gone.name);
                    forget.failures.clear(&key);
                    forget.claims.forget(&key);
                    let _ = forget.queue_times.begun(&key);
                    forget.metrics.conditions_are_gone(&kind, namespace, &gone.name);
                    if kind == GatewayPool::kind(&()) {
                        let (namespace, name) = (namespace.to_owned(), gone.name.clone());
                        forget.metrics.deduplication_is_covered(namespace, name);
                    }
                    let (held, of) = (forget.clone(), key);
                    drop(tokio::spawn(async move { holders::gone(&held, &of).await }));
                    if kind == EdgePool::kind(&()) {
                        forget.references.set(namespace, &gone.name, std::iter::empty());
                    }
                }
                Err(error) => {
                    figures.watch_broke(&kind);
                    tracing::warn!(kind, error = %chain(&error), "a watch broke and starts again");
                }
            }
            std::future::ready(())
        })
        .await;
}

/// One run of a reconciler, for an object from its store, once this replica leads: in its own task,
/// so that threads share the work and a panic stops no other object.
async fn unpacked<R: Reconciler>(
    packed: Arc<Packed<R::Object>>,
    context: Arc<Context>,
    mut leads: watch::Receiver<bool>,
) -> Result<Action, StepError> {
    if !*leads.borrow() {
        // The waiting copy is old by then: look it up again.
        let led = leads.wait_for(|leads| *leads).await.is_ok();
        return Ok(if led { Action::requeue(Duration::ZERO) } else { Action::await_change() });
    }
    let guarded = Arc::new(packed.unpack());
    let running = tokio::spawn(reconcile::<R>(guarded.clone(), context.clone()));
    match AbortOnDropHandle::new(running).await {
        Ok(outcome) => outcome,
        Err(ended) => {
            let cause = format!("the reconcile did not end by itself, which is a bug: {ended}");
            let bug = StepError::new(Step::Observe, Category::Temporary, Reason::Waiting, cause);
            if let Ok(object) = &guarded.0 {
                tell(&context, object, &bug).await;
            }
            Err(bug)
        }
    }
}

fn note_claim<R: Reconciler>(context: &Context, object: &R::Object) {
    if let Some(claim) = R::claim(object) {
        context.claims.note(object, claim);
    }
}

/// One run of a reconciler, with the frame around it. Public so that tests drive the same code.
///
/// # Errors
/// What the kind's steps fail with, or a time-out.
pub async fn reconcile<R: Reconciler>(
    guarded: Arc<DeserializeGuard<R::Object>>,
    context: Arc<Context>,
) -> Result<Action, StepError> {
    let kind = R::Object::kind(&()).into_owned();
    if let Some(waited) = context.queue_times.begun(&key_of(guarded.as_ref())) {
        context.metrics.waited(&kind, waited);
    }
    let object = match &guarded.0 {
        Ok(object) => object,
        Err(invalid) => return unparsable::<R>(&guarded, invalid, &context).await,
    };
    note_claim::<R>(&context, object);
    if object.meta().deletion_timestamp.is_some() && !R::HANDLES_DELETION {
        context.failures.clear(&key_of(object));
        return Ok(Action::await_change());
    }
    let running = context.metrics.reconcile_started(&kind);
    let started = Instant::now();
    let trace = trace(&context, &kind, object);
    let limit = Duration::from_secs(RECONCILE_SECONDS_MAX);
    let work = async {
        let reconciling = Box::pin(R::reconcile(&context, object));
        let outcome = tokio::time::timeout(limit, reconciling).await;
        let outcome = outcome.unwrap_or_else(|_elapsed| Err(given_up()));
        if let Err(failure) = &outcome {
            tell(&context, object, failure).await;
        }
        outcome
    };
    let outcome = work.instrument(trace.span()).await;
    drop(running);
    let failure = outcome.as_ref().err().map(|error| error.category);
    trace.span().record("result", failure.map_or("ok", Category::as_str));
    trace.ended(outcome.as_ref().err().map(|error| chain(error)).as_deref());
    context.metrics.reconcile_finished(&kind, started.elapsed(), failure, trace.id);
    let next = outcome?;
    context.failures.clear(&key_of(object));
    context.metrics.set_failing(context.failures.failing());
    Ok(next.action(&key_of(object)))
}

/// The trace of a reconcile, if it is kept. Below it are the requests that it makes.
fn trace<K: Resource>(context: &Context, kind: &str, object: &K) -> Trace {
    let meta = object.meta();
    context.metrics.tracer().begin(|trace_id| {
        tracing::debug_span!(
            target: SPANS,
            parent: None,
            "reconcile",
            trace_id,
            otel.name = format!("reconcile {kind}"),
            otel.status_code = Empty,
            kind,
            namespace = meta.namespace.as_deref().unwrap_or_default(),
            object = meta.name.as_deref().unwrap_or_default(),
            generation = meta.generation,
            result = Empty,
            error = Empty,
        )
    })
}

/// Reports an object that doesn't parse, and leaves it alone. One that is being deleted with our
/// finalizer, for example written by a newer release, is still released in the end.
async fn unparsable<R: Reconciler>(
    guarded: &DeserializeGuard<R::Object>,
    invalid: &InvalidObject,
    context: &Context,
) -> Result<Action, StepError> {
    let kind = R::Object::kind(&());
    context.metrics.unparsable(&kind);
    let note = format!("this {kind} does not parse and is left alone: {}", invalid.error);
    let notice = Notice::warning(EventReason::Unparsable, "Reconcile", note);
    context.events.publish(&guarded.object_ref(&()), notice).await;
    let meta = guarded.meta();
    if meta.deletion_timestamp.is_none() || !finalizer::is_held(meta) {
        return Ok(Action::await_change());
    }
    // Until then, a release that can read it may return and clean up.
    let left = finalizer::time_left(meta, context.clock.now(), finalizer::CLEANING_MAX);
    if !left.is_zero() {
        return Ok(Action::requeue(left));
    }
    let note = format!(
        "this {kind} does not parse: what it stands for outside Kubernetes is left as it is: {}",
        invalid.error
    );
    let notice = Notice::warning(Reason::DeletionGivenUp, "Delete", note);
    context.events.publish(&guarded.object_ref(&()), notice).await;
    finalizer::release::<R::Object>(context, meta).await?;
    Ok(Action::await_change())
}

/// Reports a failure that ended a reconcile before its kind could: the last report may no longer
/// hold. Silent about conflicts, which the retry ends, and about objects being deleted.
async fn tell<K: Applicable>(context: &Context, object: &K, failure: &StepError) {
    let passing = failure.category == Category::Conflict || failure.step == Step::Status;
    if failure.is_told() || passing || object.meta().deletion_timestamp.is_some() {
        return;
    }
    let telling = state_unknown(context, object, failure);
    if let Ok(Err(error)) = tokio::time::timeout(TELLING_MAX, telling).await {
        let key = key_of(object);
        tracing::warn!(key, error = %chain(&error), "a failed reconcile can't be told of");
    }
}

fn given_up() -> StepError {
    let cause =
        format!("the reconcile took longer than {RECONCILE_SECONDS_MAX} s and was given up");
    StepError::new(Step::Observe, Category::External, Reason::ReconcileTimedOut, cause)
}

/// What follows a failed reconcile: a log line, and another attempt after a growing delay.
fn error_policy<R: Reconciler>(
    object: Arc<Packed<R::Object>>,
    error: &StepError,
    context: Arc<Context>,
) -> Action {
    let key = key_of(object.as_ref());
    let delay = context.failures.failed(&key, error.category);
    context.metrics.set_failing(context.failures.failing());
    let delay_seconds = delay.as_secs_f64();
    let step = error.step.as_str();
    let category = error.category.as_str();
    let reason = error.reason.as_str();
    let cause = chain(error);
    match error.category {
        Category::Conflict => tracing::debug!(key, step, delay_seconds, "conflict: {cause}"),
        _ => {
            tracing::warn!(key, step, category, reason, delay_seconds, "reconcile failed: {cause}")
        }
    }
    Action::requeue(delay)
}
