//! Routes requests to pages: `/` is the list, `/pipelines/NAMESPACE/NAME` one pipeline.
//!
//! Each response forbids scripts, frames, external resources and caching. Only GET and HEAD are
//! answered.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use kube::Resource;
use millrace_console::links::Links;
use millrace_console::list::{self, Filter, ListView};
use millrace_console::pipeline::{self, PipelineView};
use millrace_console::{RELOAD_SECONDS, STYLE};
use millrace_crds::v1alpha1::TelemetryPipeline;
use millrace_reports::{Summary, summarize_pipeline};
use sha2::{Digest, Sha256};

use super::access::{Access, Denied};
use super::gather::{NoFacts, Reading, Readings};
use crate::cache::packed::Packed;
use crate::context::Context;
use crate::pods::FigureSource;

/// Maximum number of pipelines that a filter by state unpacks: each takes some 20 µs.
const SCANNED_MAX: usize = 10_000;

/// Serves the console's pages to permitted clients.
#[derive(Clone)]
pub struct Console {
    parts: Arc<ConsoleInner>,
}

struct ConsoleInner {
    context: Arc<Context>,
    access: Access,
    readings: Readings,
    links: Links,
    policy: Option<HeaderValue>,
}

/// A response's content, before its headers.
struct ResponseContent {
    status: StatusCode,
    is_html: bool,
    text: String,
}

impl ResponseContent {
    fn from_text(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, is_html: false, text: text.into() }
    }

    fn from_html(text: String) -> Self {
        Self { status: StatusCode::OK, is_html: true, text }
    }
}

impl Console {
    /// Creates a console of the objects that this process watches; `source` queries pods.
    #[must_use]
    pub fn new(
        context: Arc<Context>,
        access: Access,
        source: Arc<dyn FigureSource>,
        links: Links,
    ) -> Self {
        let readings = Readings::new(source);
        let policy = content_policy();
        Self { parts: Arc::new(ConsoleInner { context, access, readings, links, policy }) }
    }

    /// Answers a request.
    pub async fn handle_request<B>(self, request: Request<B>) -> Response<Full<Bytes>> {
        let (parts, _body) = request.into_parts();
        let page = match self.parts.access.admit_request(&parts.headers).await {
            Err(denied) => {
                return self.build_response(refusal_page(&denied), denied == Denied::Unknown);
            }
            Ok(()) if parts.method != Method::GET && parts.method != Method::HEAD => {
                ResponseContent::from_text(StatusCode::METHOD_NOT_ALLOWED, "send GET\n")
            }
            Ok(()) => {
                self.route_request(parts.uri.path(), parts.uri.query().unwrap_or_default()).await
            }
        };
        self.build_response(page, false)
    }

    async fn route_request(&self, path: &str, query: &str) -> ResponseContent {
        if path == "/" {
            return self.render_list(Filter::from_query(query)).await;
        }
        let words: Vec<String> = path.split('/').skip(1).map(list::decode_value).collect();
        match words.as_slice() {
            [kind, namespace, name] if kind == "pipelines" => {
                self.render_pipeline(namespace, name, query).await
            }
            _ => ResponseContent::from_text(
                StatusCode::NOT_FOUND,
                "write / or /pipelines/NAMESPACE/NAME\n",
            ),
        }
    }

    async fn render_list(&self, filter: Filter) -> ResponseContent {
        let parts = self.parts.clone();
        let made = tokio::task::spawn_blocking(move || list_page(&parts.context, &filter)).await;
        match made {
            Ok(text) => ResponseContent::from_html(text),
            Err(error) => {
                ResponseContent::from_text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))
            }
        }
    }

    async fn render_pipeline(&self, namespace: &str, name: &str, query: &str) -> ResponseContent {
        let ConsoleInner { context, readings, links, .. } = &*self.parts;
        let opens_dead_letters = query.split('&').any(|it| it == pipeline::DEAD_LETTERS_PARAMETER);
        let reloads = !opens_dead_letters && !Filter::from_query(query).still;
        let reading = match readings.read_pipeline(context, namespace, name).await {
            Ok(reading) => reading,
            Err(NoFacts::Missing) => {
                let text = "there is no such TelemetryPipeline, or this operator does not watch \
                            its namespace\n";
                return ResponseContent::from_text(StatusCode::NOT_FOUND, text);
            }
            Err(NoFacts::Unreadable(why)) => {
                let text = format!("the TelemetryPipeline can't be read: {why}\n");
                return ResponseContent::from_text(StatusCode::INTERNAL_SERVER_ERROR, text);
            }
            Err(NoFacts::Busy) => {
                let text = "other requests are being served; retry in some seconds\n";
                return ResponseContent::from_text(StatusCode::SERVICE_UNAVAILABLE, text);
            }
        };
        let dead_letters = match opens_dead_letters {
            true => Some(readings.read_dead_letters(&reading).await),
            false => None,
        };
        let Reading { facts, events, producers, .. } = reading;
        let shown = &context.console_history;
        let pools = || facts.gateways.iter().filter_map(|pool| pool.metadata.uid.as_deref());
        let decisions: Vec<_> = pools().flat_map(|uid| shown.decisions_of(uid)).collect();
        let day: Vec<_> = pools().flat_map(|uid| shown.day_of(uid)).collect();
        let schemas = facts.schemas.iter().filter_map(|schema| schema.metadata.uid.as_deref());
        let steps: Vec<_> = schemas.flat_map(|uid| shown.planned_steps(uid)).collect();
        let note = footer_text(reloads);
        ResponseContent::from_html(pipeline::render_pipeline(&PipelineView {
            facts: &facts,
            decisions: &decisions,
            steps: &steps,
            day: &day,
            events: &events,
            producers: &producers,
            dead_letters: dead_letters.as_ref(),
            links,
            reloads,
            footer: &note,
        }))
    }

    fn build_response(&self, page: ResponseContent, requests_login: bool) -> Response<Full<Bytes>> {
        let ResponseContent { status, is_html, text } = page;
        let mut response = Response::new(Full::new(text.into()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let format = if is_html { "text/html; charset=utf-8" } else { "text/plain; charset=utf-8" };
        for (name, value) in [
            (CONTENT_TYPE, format),
            (CACHE_CONTROL, "no-store"),
            (REFERRER_POLICY, "no-referrer"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.extend(self.parts.policy.clone().map(|policy| (CONTENT_SECURITY_POLICY, policy)));
        if requests_login {
            let challenge = HeaderValue::from_static("Basic realm=\"millrace\", charset=\"UTF-8\"");
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// Returns the policy that allows only the one style of each page, and forms to the page itself.
fn content_policy() -> Option<HeaderValue> {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::from_str(&policy).ok()
}

fn refusal_page(denied: &Denied) -> ResponseContent {
    match denied {
        Denied::Unknown => ResponseContent::from_text(
            StatusCode::UNAUTHORIZED,
            "give the console's token as the password, or as a bearer token\n",
        ),
        Denied::ForeignHost => ResponseContent::from_text(
            StatusCode::FORBIDDEN,
            "use localhost or 127.0.0.1: the console answers on the machine's own address\n",
        ),
        Denied::NoToken(why) => {
            tracing::warn!(why, "the console's token can't be read");
            ResponseContent::from_text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the token can't be read; see the log\n",
            )
        }
    }
}

fn footer_text(reloads: bool) -> String {
    let reload = match reloads {
        true => format!("Auto-refresh every {RELOAD_SECONDS} s."),
        false => "Auto-refresh is off.".to_owned(),
    };
    format!("{reload} Read only. millrace-operator {}", env!("CARGO_PKG_VERSION"))
}

/// Renders the list of the pipelines that this process's watch has reported.
fn list_page(context: &Context, filter: &Filter) -> String {
    let all = context.stores.all_objects::<TelemetryPipeline>();
    let identity = |one: &Packed<TelemetryPipeline>| {
        let meta = one.meta();
        (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    };
    let mut found: Vec<_> = all.iter().map(|one| (identity(one), one)).collect();
    found.retain(|((namespace, name), _)| filter.matches(namespace, name));
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut unreadable = Vec::new();
    let mut read = |(namespace, name): &(String, String), one: &Packed<TelemetryPipeline>| match one
        .unpack()
        .0
    {
        Ok(pipeline) => Some(summarize_pipeline(&pipeline)),
        Err(error) => {
            unreadable.push((format!("{namespace}/{name}"), error.error));
            None
        }
    };
    let (matching, rows): (usize, Vec<Summary>) = if filter.troubled {
        let scanned = found.iter().take(SCANNED_MAX);
        let rows = scanned.filter_map(|(of, one)| read(of, one)).filter(Summary::is_troubled);
        let rows: Vec<_> = rows.collect();
        (rows.len(), rows.into_iter().skip(filter.from).take(list::ROWS_MAX).collect())
    } else {
        let shown = found.iter().skip(filter.from).take(list::ROWS_MAX);
        (found.len(), shown.filter_map(|(of, one)| read(of, one)).collect())
    };
    unreadable.truncate(list::ROWS_MAX);
    list::render_list(&ListView {
        filter,
        rows: &rows,
        matching,
        all: all.len(),
        unreadable: &unreadable,
        footer: &footer_text(!filter.still),
    })
}
