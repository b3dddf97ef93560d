//! Runs every kind's reconciler: one run per object, time limit, back-off, metrics.
//!
//! A kind implements [`Reconciler`]. The loop isolates objects that do not parse, adds finalizers
//! and finalizes objects being deleted, turns failures into delays, and lets no object stop
//! another. A standby replica watches everything that a leader does and reconciles nothing.
//! The loop must not know a kind's work.

use std::any::TypeId;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt, TryStreamExt};
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::controller::{self, Action, Controller};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Resource, ResourceExt};
use millrace_crds::v1alpha1::DeletionPolicy;
use millrace_crds::{EventReason, Reason};
use millrace_observe::otlp::{SPANS, Trace};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;
use tracing::field::Empty;

use crate::cache::claims::Claim;
use crate::cache::objects::FirstListGuard;
use crate::cache::packed::Packed;
use crate::cache::{self, key_of};
use crate::cluster::{Applicable, patch_unknown_status, set_conditions};
use crate::context::Context;
use crate::error::{Category, ReconcileStep, StepError, error_chain};
use crate::holders;
use crate::pods::pages::PAGE;
use crate::reconcile::next::Next;
use crate::reconcile::watch_scope::WatchScope;
use crate::reconcile::watches::{WatchBuilder, with_backoff};
use crate::reconcile::{finalizer, metrics};
use crate::report::events::Notice;
use crate::telemetry::metrics::WATCH_ERRORS;

/// The time limit of a reconcile, after which it is aborted and retried: a hanging endpoint must
/// not hold a slot for ever. The slowest legitimate step, a schema migration, resumes where it
/// stopped.
const RECONCILE_SECONDS_MAX: u64 = 120;
/// The time limit for reporting a failed reconcile, which takes two requests.
const REPORT_MAX: Duration = Duration::from_secs(10);
/// The memory of reconciles, part of the limit in the chart's values. Each holds a few API answers
/// (under 100 KiB); three kinds run 16 at once, two run 64.
pub const RECONCILES_BYTES_MAX: usize = (3 * 16 + 2 * 64) * 100 * 1024;
/// The default number of concurrent reconciles of one kind. It also bounds memory
/// ([`RECONCILES_BYTES_MAX`]). A reconcile that writes waits for about six answers in a row, so at
/// 15 ms each sixteen at once are 170 a second.
const CONCURRENCY: u16 = 16;

/// A kind's part: the children that it watches and how it reconciles one object.
pub trait Reconciler: Send + Sync + 'static {
    /// The kind.
    type Object: Applicable;

    /// The number of objects of the kind that are reconciled at once, in all namespaces.
    const CONCURRENCY: u16 = CONCURRENCY;

    /// Whether objects of the kind claim something outside Kubernetes.
    const CLAIMS: bool = false;

    /// Returns what an object claims outside Kubernetes.
    fn claim_of(_object: &Self::Object) -> Option<Claim> {
        None
    }

    /// Adds a watch for each kind of child.
    fn add_watches(watching: WatchBuilder<Self::Object>) -> WatchBuilder<Self::Object>;

    /// Returns the deletion policy of an object whose kind has finalizers; `None` for other kinds.
    fn deletion_policy(_object: &Self::Object) -> Option<DeletionPolicy> {
        None
    }

    /// Drops what the kind has cached about an object that no longer exists.
    fn forget(_context: &Context, _namespace: &str, _name: &str) {}

    /// Runs observe, validate, build, apply and status for one object.
    fn reconcile(
        context: &Context,
        object: &Self::Object,
    ) -> impl Future<Output = Result<Next, StepError>> + Send;

    /// Cleans up after an object that is being deleted, and removes its finalizer.
    fn finalize(
        _context: &Context,
        _object: &Self::Object,
    ) -> impl Future<Output = Result<Next, StepError>> + Send {
        std::future::ready(Ok(Next::OnChange))
    }
}

/// Runs the controller of `R` in `scope` until `stop` resolves and its reconciles end. While
/// `leads` is false it only watches, so that a replica that takes over has a full cache.
pub async fn run<R: Reconciler>(
    context: Arc<Context>,
    scope: WatchScope,
    leads: watch::Receiver<bool>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let kind = R::Object::kind(&()).into_owned();
    let (store, writer) = reflector::store();
    let own = watcher::Config::default().page_size(PAGE);
    let own = watcher(scope.scoped_api::<Packed<R::Object>>(), own);
    let unread = Arc::new(context.stores.add_store::<R::Object>(store.clone()));
    let own = log_refused_list(own, unread.clone(), kind.clone(), scope.log_name().to_owned());
    let own = with_backoff(&kind, &kind, &context.metrics, own).reflect(writer).inspect_ok(
        move |event| {
            // This event follows all objects of the first list, whose claims are recorded by then.
            if matches!(event, watcher::Event::InitDone) {
                unread.mark_read();
            }
        },
    );
    let recorder = context.clone();
    let own = own.touched_objects().inspect_ok(move |object| {
        recorder.queue_times.record_event(key_of(object));
        // All claims are recorded before the first reconcile, so the oldest claimant is known.
        if R::CLAIMS
            && let Ok(object) = &object.unpack().0
        {
            record_claim::<R>(&recorder, object);
        }
    });
    let controller = Controller::for_stream(own, store);
    let controller = R::add_watches(WatchBuilder::new(controller, scope, context.clone()))
        .into_controller()
        .with_config(controller::Config::default().concurrency(R::CONCURRENCY))
        .graceful_shutdown_on(stop);
    let figures = context.metrics.clone();
    // An alert compares it with 0, so it exists before the first reconcile.
    figures.set(&metrics::FAILING, [], context.failures.failing_count());
    let forget = context.clone();
    controller
        .run(
            move |packed, context| reconcile_packed::<R>(packed, context, leads.clone()),
            error_policy::<R>,
            context,
        )
        .for_each(|outcome| {
            match outcome {
                Ok(_) | Err(controller::Error::ReconcilerFailed(..)) => {}
                Err(controller::Error::ObjectNotFound(missing)) => {
                    let namespace = missing.namespace.as_deref().unwrap_or_default();
                    forget_object::<R>(&forget, &kind, namespace, &missing.name);
                }
                Err(error) => {
                    figures.count(&WATCH_ERRORS, [&kind]);
                    tracing::warn!(kind, error = %error_chain(&error), "a watch failed and is \
                                                                        restarted");
                }
            }
            std::future::ready(())
        })
        .await;
}

/// Drops what is recorded about an object that no longer exists, and releases its claims.
fn forget_object<R: Reconciler>(context: &Arc<Context>, kind: &str, namespace: &str, name: &str) {
    let key = cache::object_key(kind, namespace, name);
    context.failures.clear(&key);
    context.claims.remove_claims(&key);
    let _ = context.queue_times.end_wait(&key);
    set_conditions(&context.metrics, kind, namespace, name, &[]);
    R::forget(context, namespace, name);
    let holder = context.clone();
    drop(tokio::spawn(async move { holders::release_record(&holder, &key).await }));
}

/// Passes the events on. A refused first list of a kind in a place is logged once, and no claim
/// waits for it.
fn log_refused_list<T>(
    events: impl Stream<Item = Result<T, watcher::Error>>,
    unread: Arc<FirstListGuard>,
    kind: String,
    scope: String,
) -> impl Stream<Item = Result<T, watcher::Error>> {
    events.inspect_err(move |error| {
        if is_refused_list(error) && unread.mark_refused() {
            let error = error_chain(error);
            tracing::warn!(
                kind, scope, error,
                "the API server refused a list; objects that it may contain hold no topics or tables"
            );
        }
    })
}

/// Returns whether the API server refused a list, which may never change: rights or the kind are
/// missing.
fn is_refused_list(error: &watcher::Error) -> bool {
    let watcher::Error::InitialListFailed(kube::Error::Api(status)) = error else { return false };
    [403, 404].contains(&status.code)
}

/// Runs a reconciler once, for an object from its store, after this replica becomes the leader. The
/// run has its own task, so threads share the work and a panic stops no other object.
async fn reconcile_packed<R: Reconciler>(
    packed: Arc<Packed<R::Object>>,
    context: Arc<Context>,
    mut leads: watch::Receiver<bool>,
) -> Result<Action, StepError> {
    if !*leads.borrow() {
        // The copy is old by then: the next run reads the store again.
        let led = leads.wait_for(|leads| *leads).await.is_ok();
        return Ok(if led { Action::requeue(Duration::ZERO) } else { Action::await_change() });
    }
    // The holder of a claim is known after the objects of all places are read. Before that, the
    // younger of two would claim what the older one holds.
    if R::CLAIMS && context.stores.wait_until_read::<R::Object>().await {
        return Ok(Action::requeue(Duration::ZERO));
    }
    let (_slot, waited) = context.slots.acquire(TypeId::of::<R>(), R::CONCURRENCY.into()).await;
    let packed = match waited {
        false => packed,
        // The copy may be old by now, or the object deleted.
        true => {
            let namespace = packed.namespace().unwrap_or_default();
            match context.stores.get::<R::Object>(&namespace, &packed.name_any()) {
                Some(newest) => newest,
                None => return Ok(Action::await_change()),
            }
        }
    };
    let guarded = Arc::new(packed.unpack());
    let running = tokio::spawn(reconcile_object::<R>(guarded.clone(), context.clone()));
    match AbortOnDropHandle::new(running).await {
        Ok(outcome) => outcome,
        Err(ended) => {
            let cause = format!("the reconcile did not end normally, which is a bug: {ended}");
            let bug =
                StepError::new(ReconcileStep::Observe, Category::Temporary, Reason::Waiting, cause);
            if let Ok(object) = &guarded.0 {
                report_failure(&context, object, &bug).await;
            }
            Err(bug)
        }
    }
}

fn record_claim<R: Reconciler>(context: &Context, object: &R::Object) {
    if let Some(claim) = R::claim_of(object) {
        context.claims.record_claim(object, claim);
    }
}

/// Runs a reconciler once, with time limit, trace and metrics. Public so that tests drive the same
/// code.
///
/// # Errors
/// When a step of the kind fails, or on a time-out.
pub async fn reconcile_object<R: Reconciler>(
    guarded: Arc<DeserializeGuard<R::Object>>,
    context: Arc<Context>,
) -> Result<Action, StepError> {
    let kind = R::Object::kind(&()).into_owned();
    if let Some(waited) = context.queue_times.end_wait(&key_of(guarded.as_ref())) {
        context.metrics.observe(&metrics::QUEUE_TIME, [&kind], waited, None);
    }
    let object = match &guarded.0 {
        Ok(object) => object,
        Err(invalid) => return report_unparsable::<R>(&guarded, invalid, &context).await,
    };
    record_claim::<R>(&context, object);
    let running = context.metrics.count_while(&metrics::RUNNING, [&kind]);
    let started = Instant::now();
    let trace = begin_trace(&context, &kind, object);
    let limit = Duration::from_secs(RECONCILE_SECONDS_MAX);
    let work = async {
        let running = Box::pin(finalize_or_reconcile::<R>(&context, object));
        let outcome = tokio::time::timeout(limit, running).await;
        let outcome = outcome.unwrap_or_else(|_elapsed| Err(timed_out()));
        if let Err(failure) = &outcome {
            report_failure(&context, object, failure).await;
        }
        outcome
    };
    let outcome = work.instrument(trace.span()).await;
    drop(running);
    let failure = outcome.as_ref().err().map(|error| error.category);
    trace.span().record("result", failure.map_or("ok", Category::as_str));
    trace.record_result(outcome.as_ref().err().map(|error| error_chain(error)).as_deref());
    let took = started.elapsed();
    metrics::record_reconcile(&context.metrics, &kind, took, failure, trace.id);
    let next = outcome?;
    context.failures.clear(&key_of(object));
    context.metrics.set(&metrics::FAILING, [], context.failures.failing_count());
    Ok(next.to_action(&key_of(object)))
}

async fn finalize_or_reconcile<R: Reconciler>(
    context: &Context,
    object: &R::Object,
) -> Result<Next, StepError> {
    if object.meta().deletion_timestamp.is_some() {
        return R::finalize(context, object).await;
    }
    let object = match R::deletion_policy(object) {
        Some(policy) => finalizer::ensure_finalizer(context, object, policy).await?,
        None => Cow::Borrowed(object),
    };
    R::reconcile(context, &object).await
}

/// Begins the trace of a reconcile, if it is sampled. The requests that the reconcile makes are its
/// children.
fn begin_trace<K: Resource>(context: &Context, kind: &str, object: &K) -> Trace {
    let meta = object.meta();
    context.metrics.tracer().begin_trace(|trace_id| {
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

/// Reports an object that doesn't parse, and leaves it unchanged. One that is being deleted with
/// this operator's finalizer, for example written by a newer release, is still released in the end.
async fn report_unparsable<R: Reconciler>(
    guarded: &DeserializeGuard<R::Object>,
    invalid: &InvalidObject,
    context: &Context,
) -> Result<Action, StepError> {
    let kind = R::Object::kind(&());
    context.metrics.count(&metrics::UNPARSABLE, [&kind]);
    let note = format!("this {kind} does not parse and is not reconciled: {}", invalid.error);
    let notice = Notice::warning(EventReason::Unparsable, "Reconcile", note);
    context.events.publish(&guarded.object_ref(&()), notice).await;
    let meta = guarded.meta();
    if meta.deletion_timestamp.is_none() || !finalizer::has_finalizer(meta) {
        return Ok(Action::await_change());
    }
    // Until then, a release that can read the object may return and clean up.
    let left = finalizer::remaining_time(meta, context.clock.now(), finalizer::CLEANING_MAX);
    if !left.is_zero() {
        return Ok(Action::requeue(left));
    }
    let note = format!(
        "this {kind} does not parse: its resources outside Kubernetes are unchanged: {}",
        invalid.error
    );
    let notice = Notice::warning(Reason::DeletionFailed, "Delete", note);
    context.events.publish(&guarded.object_ref(&()), notice).await;
    finalizer::remove_finalizer::<R::Object>(context, meta).await?;
    Ok(Action::await_change())
}

/// Reports a failure that ended a reconcile before its kind could report: the last status may be
/// outdated. Conflicts, which the retry ends, and objects being deleted are not reported.
async fn report_failure<K: Applicable>(context: &Context, object: &K, failure: &StepError) {
    let passing = failure.category == Category::Conflict || failure.step == ReconcileStep::Status;
    if failure.is_reported() || passing || object.meta().deletion_timestamp.is_some() {
        return;
    }
    let telling = patch_unknown_status(context, object, failure);
    if let Ok(Err(error)) = tokio::time::timeout(REPORT_MAX, telling).await {
        let key = key_of(object);
        let error = error_chain(&error);
        tracing::warn!(key, error, "failed to report a reconcile error in status");
    }
}

fn timed_out() -> StepError {
    let cause =
        format!("the reconcile took longer than {RECONCILE_SECONDS_MAX} s and was abandoned");
    StepError::new(ReconcileStep::Observe, Category::External, Reason::ReconcileTimedOut, cause)
}

/// Logs a failed reconcile and schedules another attempt after a growing delay.
fn error_policy<R: Reconciler>(
    object: Arc<Packed<R::Object>>,
    error: &StepError,
    context: Arc<Context>,
) -> Action {
    let key = key_of(object.as_ref());
    let delay = context.failures.record_failure(&key, error.category);
    context.metrics.set(&metrics::FAILING, [], context.failures.failing_count());
    let delay_seconds = delay.as_secs_f64();
    let step = error.step.as_str();
    let category = error.category.as_str();
    let reason = error.reason.as_str();
    let cause = error_chain(error);
    match error.category {
        Category::Conflict => tracing::debug!(key, step, delay_seconds, "conflict: {cause}"),
        _ => {
            tracing::warn!(key, step, category, reason, delay_seconds, "reconcile failed: {cause}")
        }
    }
    Action::requeue(delay)
}
