//! Requests to pages: `/` is the list, `/pipelines/NAMESPACE/NAME` one pipeline.
//!
//! Each answer forbids scripts, frames, and whatever isn't in the page, and is not to be kept. Only
//! GET and HEAD are answered.

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
use millrace_console::list::{self, Filter, ListView};
use millrace_console::pipeline::{self, PipelineView};
use millrace_console::{RELOAD_SECONDS, STYLE};
use millrace_crds::v1alpha1::TelemetryPipeline;
use millrace_reports::{Summary, summary};
use sha2::{Digest, Sha256};

use super::access::{Access, Denied};
use super::gather::{NoFacts, Readings};
use crate::cache::packed::Packed;
use crate::context::Context;
use crate::pods::FigureSource;

/// Pipelines that a filter by state looks through: unpacking one takes some 20 µs.
const LOOKED_THROUGH_MAX: usize = 10_000;

/// What is answered, and to whom.
#[derive(Clone)]
pub struct Console {
    parts: Arc<Parts>,
}

struct Parts {
    context: Arc<Context>,
    access: Access,
    readings: Readings,
    policy: Option<HeaderValue>,
}

/// An answer's text, before its headers.
struct Page {
    status: StatusCode,
    is_html: bool,
    text: String,
}

impl Page {
    fn plain(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, is_html: false, text: text.into() }
    }

    fn html(text: String) -> Self {
        Self { status: StatusCode::OK, is_html: true, text }
    }
}

impl Console {
    /// A console of what this process sees; `source` asks pods.
    #[must_use]
    pub fn new(context: Arc<Context>, access: Access, source: Arc<dyn FigureSource>) -> Self {
        let readings = Readings::new(source);
        Self { parts: Arc::new(Parts { context, access, readings, policy: policy() }) }
    }

    /// Answers a request.
    pub async fn answer<B>(self, request: Request<B>) -> Response<Full<Bytes>> {
        let (parts, _body) = request.into_parts();
        let page = match self.parts.access.admit(&parts.headers).await {
            Err(denied) => return self.respond(refusal(&denied), denied == Denied::Unknown),
            Ok(()) if parts.method != Method::GET && parts.method != Method::HEAD => {
                Page::plain(StatusCode::METHOD_NOT_ALLOWED, "send GET\n")
            }
            Ok(()) => self.page(parts.uri.path(), parts.uri.query().unwrap_or_default()).await,
        };
        self.respond(page, false)
    }

    async fn page(&self, path: &str, query: &str) -> Page {
        if path == "/" {
            return self.list(Filter::of(query)).await;
        }
        let words: Vec<String> = path.split('/').skip(1).map(list::decoded).collect();
        match words.as_slice() {
            [kind, namespace, name] if kind == "pipelines" => {
                self.pipeline(namespace, name, !Filter::of(query).still).await
            }
            _ => Page::plain(StatusCode::NOT_FOUND, "write / or /pipelines/NAMESPACE/NAME\n"),
        }
    }

    async fn list(&self, filter: Filter) -> Page {
        let parts = self.parts.clone();
        let made = tokio::task::spawn_blocking(move || list_page(&parts.context, &filter)).await;
        match made {
            Ok(text) => Page::html(text),
            Err(error) => Page::plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }

    async fn pipeline(&self, namespace: &str, name: &str, reloads: bool) -> Page {
        let Parts { context, readings, .. } = &*self.parts;
        let facts = match readings.facts(context, namespace, name).await {
            Ok(facts) => facts,
            Err(NoFacts::Missing) => {
                let text = "there is no such TelemetryPipeline, or this operator does not watch \
                            its namespace\n";
                return Page::plain(StatusCode::NOT_FOUND, text);
            }
            Err(NoFacts::Unreadable(why)) => {
                let text = format!("the TelemetryPipeline can't be read: {why}\n");
                return Page::plain(StatusCode::INTERNAL_SERVER_ERROR, text);
            }
            Err(NoFacts::Busy) => {
                let text = "others are being read; ask again in some seconds\n";
                return Page::plain(StatusCode::SERVICE_UNAVAILABLE, text);
            }
        };
        let shown = &context.shown;
        let pools = facts.gateways.iter().filter_map(|pool| pool.metadata.uid.as_deref());
        let decisions: Vec<_> = pools.flat_map(|uid| shown.decisions(uid)).collect();
        let schemas = facts.schemas.iter().filter_map(|schema| schema.metadata.uid.as_deref());
        let steps: Vec<_> = schemas.flat_map(|uid| shown.steps(uid)).collect();
        let note = note(reloads);
        Page::html(pipeline::page(&PipelineView {
            facts: &facts,
            decisions: &decisions,
            steps: &steps,
            reloads,
            note: &note,
        }))
    }

    fn respond(&self, page: Page, asks: bool) -> Response<Full<Bytes>> {
        let Page { status, is_html, text } = page;
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
        if asks {
            let ask = HeaderValue::from_static("Basic realm=\"millrace\", charset=\"UTF-8\"");
            headers.insert(WWW_AUTHENTICATE, ask);
        }
        response
    }
}

/// Nothing but the one style of each page, and forms to the page itself.
fn policy() -> Option<HeaderValue> {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::from_str(&policy).ok()
}

fn refusal(denied: &Denied) -> Page {
    match denied {
        Denied::Unknown => Page::plain(
            StatusCode::UNAUTHORIZED,
            "give the console's token as the password, or as a bearer token\n",
        ),
        Denied::ForeignHost => Page::plain(
            StatusCode::FORBIDDEN,
            "ask for localhost or 127.0.0.1: the console answers on the machine's own address\n",
        ),
        Denied::NoToken(why) => {
            tracing::warn!(why, "the console's token can't be read");
            Page::plain(StatusCode::SERVICE_UNAVAILABLE, "the token can't be read; see the log\n")
        }
    }
}

fn note(reloads: bool) -> String {
    let reload = match reloads {
        true => format!("Reloads each {RELOAD_SECONDS} s."),
        false => "Stays as it is until you reload it.".to_owned(),
    };
    format!("{reload} Read only. millrace-operator {}", env!("CARGO_PKG_VERSION"))
}

/// The list, of what this process's watch has seen.
fn list_page(context: &Context, filter: &Filter) -> String {
    let all = context.stores.all::<TelemetryPipeline>();
    let identity = |one: &Packed<TelemetryPipeline>| {
        let meta = one.meta();
        (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    };
    let mut found: Vec<_> = all.iter().map(|one| (identity(one), one)).collect();
    found.retain(|((namespace, name), _)| filter.names(namespace, name));
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut unreadable = Vec::new();
    let mut read = |(namespace, name): &(String, String), one: &Packed<TelemetryPipeline>| match one
        .unpack()
        .0
    {
        Ok(pipeline) => Some(summary(&pipeline)),
        Err(error) => {
            unreadable.push((format!("{namespace}/{name}"), error.error));
            None
        }
    };
    let (matching, rows): (usize, Vec<Summary>) = if filter.troubled {
        let looked = found.iter().take(LOOKED_THROUGH_MAX);
        let rows = looked.filter_map(|(of, one)| read(of, one)).filter(Summary::is_troubled);
        let rows: Vec<_> = rows.collect();
        (rows.len(), rows.into_iter().skip(filter.from).take(list::ROWS_MAX).collect())
    } else {
        let shown = found.iter().skip(filter.from).take(list::ROWS_MAX);
        (found.len(), shown.filter_map(|(of, one)| read(of, one)).collect())
    };
    unreadable.truncate(list::ROWS_MAX);
    list::page(&ListView {
        filter,
        rows: &rows,
        matching,
        all: all.len(),
        unreadable: &unreadable,
        note: &note(!filter.still),
    })
}
