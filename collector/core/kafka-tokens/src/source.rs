//! Renews a token on a dedicated thread and hands it to Kafka clients.
//!
//! A token is renewed after three quarters of its lifetime, so that a provider may be away for the
//! last quarter. A failed request is repeated after 1 s, then twice as late each time up to 30 s,
//! and the present token is used until it expires.
//!
//! Limits: one request at a time; one entry per attached client that exists.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::access_token::AccessToken;
use crate::aws::MskSigner;
use crate::client_credentials::fetch_token;
use crate::native::{KafkaClient, set_failure, set_token};
use crate::settings::{OAuthSettings, TokenSettings};

/// The wait after the first failed request.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest wait after a failed request.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// The shortest wait after a successful request: a provider whose tokens last a second is not
/// queried in a loop.
const RENEWAL_MIN: Duration = Duration::from_millis(500);

/// Whether a client's error events are polled. Those of others would accumulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorEvents {
    /// A failed request is reported by the client as its own error.
    Polled,
    /// Failed requests are not reported by the client.
    Unpolled,
}

/// A token that is renewed while the source exists. Clones share it.
#[derive(Clone)]
pub struct TokenSource(Arc<SourceHandle>);

/// Ends the thread with the last clone.
struct SourceHandle(Arc<Shared>);

impl Drop for SourceHandle {
    fn drop(&mut self) {
        self.0.lock_state().is_ended = true;
        self.0.changed.notify_all();
    }
}

struct Shared {
    /// Names the issuer in messages.
    issuer: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    token: Option<AccessToken>,
    /// The last request's failure; `None` after a success.
    failure: Option<String>,
    clients: Vec<AttachedClient>,
    is_ended: bool,
}

struct AttachedClient {
    client: Weak<dyn KafkaClient>,
    events: ErrorEvents,
}

impl State {
    fn valid_token(&self) -> Option<&AccessToken> {
        self.token.as_ref().filter(|token| token.expires_at > Instant::now())
    }
}

impl TokenSource {
    /// Starts the thread, whose first request begins at once.
    ///
    /// # Errors
    /// When the thread can't be started.
    pub fn start(settings: impl Into<TokenSettings>) -> std::io::Result<Self> {
        let settings = settings.into();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { issuer: settings.issuer(), state, changed });
        let renewing = Arc::clone(&shared);
        let run = move || renew_tokens(&renewing, &runtime, settings);
        thread::Builder::new().name("kafka-tokens".into()).spawn(run)?;
        Ok(Self(Arc::new(SourceHandle(shared))))
    }

    /// Hands the present token and each later one to `client`, as long as it exists.
    pub fn attach<T: KafkaClient>(&self, client: &Arc<T>, events: ErrorEvents) {
        let client: Arc<dyn KafkaClient> = client.clone();
        let mut state = self.0.0.lock_state();
        match (state.valid_token(), &state.failure) {
            (Some(token), _) => hand_over(&*client, token),
            (None, Some(failure)) if events == ErrorEvents::Polled => {
                set_failure(&*client, failure);
            }
            (None, _) => {}
        }
        state.clients.push(AttachedClient { client: Arc::downgrade(&client), events });
    }

    /// Waits until there is a valid token, or the request under way has failed. Blocks.
    ///
    /// # Errors
    /// Why there is no token: the provider's answer, or that none came in time.
    pub fn wait_for_token(&self, limit: Duration) -> Result<(), String> {
        let until = Instant::now() + limit;
        let shared = &self.0.0;
        let mut state = shared.lock_state();
        loop {
            if state.valid_token().is_some() {
                return Ok(());
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("{}: no answer yet", shared.issuer));
            }
            let waited = shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn lock_state(&self) -> MutexGuard<'_, State> {
        // Each change leaves a complete value behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request's outcome and hands it to all clients; returns when the next one is due.
    fn record_outcome(&self, outcome: Result<AccessToken, String>, failures: &mut u32) -> Duration {
        let mut state = self.lock_state();
        state.clients.retain(|attached| attached.client.strong_count() > 0);
        // Dropped after the lock: the last owner of a client closes it.
        let clients: Vec<_> = state
            .clients
            .iter()
            .filter_map(|attached| Some((attached.client.upgrade()?, attached.events)))
            .collect();
        let wait = match outcome {
            Ok(token) => {
                if *failures > 0 {
                    tracing::info!(failures, "tokens for Kafka are issued again");
                }
                *failures = 0;
                clients.iter().for_each(|(client, _)| hand_over(&**client, &token));
                let wait = (token.lifetime * 3 / 4).max(RENEWAL_MIN);
                state.token = Some(token);
                state.failure = None;
                wait
            }
            Err(reason) => {
                let is_valid = state.valid_token().is_some();
                if *failures == 0 || (!is_valid && state.token.take().is_some()) {
                    tracing::warn!(
                        reason,
                        token_is_valid = is_valid,
                        "no token for Kafka; retrying automatically"
                    );
                }
                let polled = clients.iter().filter(|(_, events)| *events == ErrorEvents::Polled);
                if !is_valid {
                    polled.for_each(|(client, _)| set_failure(&**client, &reason));
                }
                state.failure = Some(reason);
                let wait = RETRY_MIN * 2u32.saturating_pow(*failures).min(1_000);
                *failures = failures.saturating_add(1);
                wait.min(RETRY_MAX)
            }
        };
        drop(state);
        self.changed.notify_all();
        wait
    }

    /// Waits for this long; returns false once the source has ended.
    fn wait_while_used(&self, wait: Duration) -> bool {
        let state = self.lock_state();
        let waited = self.changed.wait_timeout_while(state, wait, |state| !state.is_ended);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_ended
    }
}

fn hand_over(client: &dyn KafkaClient, token: &AccessToken) {
    if let Err(reason) = set_token(client, token) {
        tracing::warn!(reason, "the Kafka client refuses a token");
    }
}

/// Issues tokens, one after another.
enum Issuer {
    OAuth(OAuthSettings),
    AwsMskIam(MskSigner),
}

impl Issuer {
    async fn issue_token(&mut self) -> Result<AccessToken, String> {
        match self {
            Self::OAuth(settings) => fetch_token(settings).await,
            Self::AwsMskIam(signer) => signer.create_token().await,
        }
    }
}

fn renew_tokens(shared: &Shared, runtime: &Runtime, settings: TokenSettings) {
    let mut issuer = match settings {
        TokenSettings::OAuth(settings) => Issuer::OAuth(settings),
        TokenSettings::AwsMskIam(settings) => Issuer::AwsMskIam(MskSigner::new(settings)),
    };
    let mut failures = 0;
    loop {
        let outcome = runtime.block_on(issuer.issue_token());
        let wait = shared.record_outcome(outcome, &mut failures);
        if !shared.wait_while_used(wait) {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
