//! Tests of where kinds are watched, and how watches handle errors.

use super::*;

/// Scenario: an operator that manages two namespaces, and one that manages all. Guarantee:
/// namespaced kinds are watched in each of the two, others once.
#[test]
fn a_kind_is_watched_where_the_operator_looks() {
    let within = ["a".to_owned(), "b".to_owned()];
    assert_eq!(watch_scopes(Watched::Pods, &within), [Some("a".to_owned()), Some("b".to_owned())]);
    assert_eq!(watch_scopes(Watched::Nodes, &within), [None]);
    assert_eq!(watch_scopes(Watched::Pods, &[]), [None]);
}

const WATCHED: Watched = Watched::Monitors(MonitorKind::Probe);

type Event = Result<watcher::Event<DynamicObject>, watcher::Error>;

/// A watch with scripted responses.
struct Played {
    watch: KindWatch,
    backoff: DefaultBackoff,
    absence: Absence,
}

impl Played {
    fn new() -> Self {
        let nobody = tower::service_fn(|_| async {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody is asked"))
        });
        let state: Arc<Mutex<DiscoveryState>> = Arc::default();
        state.lock().unwrap().set_stage(WATCHED, 0, WatchStage::Waiting(None));
        let watch = KindWatch {
            client: Client::new(nobody, "default"),
            metrics: Metrics::new().unwrap(),
            watched: WATCHED,
            scope: 0,
            namespace: None,
            state,
        };
        Self { watch, backoff: DefaultBackoff::default(), absence: Absence::default() }
    }

    /// Plays events until they end, with a new list where the watch lists again.
    async fn play(&mut self, events: impl IntoIterator<Item = Event>) {
        let mut events = futures::stream::iter(events.into_iter().collect::<Vec<_>>()).peekable();
        while std::pin::Pin::new(&mut events).peek().await.is_some() {
            let strip = |it| {
                CachedObject::Monitor(
                    MonitorKind::Probe,
                    strip::strip_monitor(MonitorKind::Probe, &it),
                )
            };
            let Self { watch, backoff, absence } = self;
            let ends = events.by_ref();
            let wait = watch.apply_events(ends, backoff, absence, strip).await;
            // The events have ended: nothing was listed again.
            if std::pin::Pin::new(&mut events).peek().await.is_some() {
                tokio::time::sleep(wait).await;
            }
        }
    }

    fn stage(&self) -> WatchStage {
        self.watch.state.lock().unwrap().stages[&(WATCHED, 0)].clone()
    }
}

fn begin() -> Event {
    Ok(watcher::Event::Init)
}

/// Returns a list that is refused with this status.
fn refused(code: u16) -> [Event; 2] {
    let status = Box::new(kube::core::Status::failure("", "").with_code(code));
    [begin(), Err(watcher::Error::InitialListFailed(kube::Error::Api(status)))]
}

/// Scenario: the list of a kind is not found (404): of one that was read before and whose change is
/// too old (410), as after its definition was removed; of one that was refused (403) before; of one
/// that was never read. Guarantee: the kind counts as not served after five responses and 25 s; one
/// response, or five at once, change nothing.
#[tokio::test(start_paused = true)]
async fn a_kind_whose_lists_are_not_found_for_a_while_is_not_served() {
    let too_old = Box::new(kube::core::Status::failure("", "").with_code(410));
    let read = [begin(), Ok(watcher::Event::InitDone), Err(watcher::Error::WatchError(too_old))];
    for before in [Vec::from(read), Vec::from(refused(403)), Vec::new()] {
        let mut played = Played::new();
        played.play(before).await;
        let stage = played.stage();
        let began = Instant::now();
        played.play(refused(404)).await;
        assert_eq!(played.stage(), stage);
        while played.stage() == stage {
            played.play(refused(404)).await;
        }
        assert_eq!(played.stage(), WatchStage::NotServed);
        assert!(began.elapsed() >= NOT_FOUND_LASTS, "{:?}", began.elapsed());
        assert!(began.elapsed() < NOT_FOUND_LASTS * 4, "{:?}", began.elapsed());
    }
}

/// Scenario: ten lists in a row are refused, as not allowed, or by a failing server. Guarantee: the
/// waits between them grow, although each list begins with an event of its own: they take 100 s at
/// least, where waits of 0.8 s would take eight seconds.
#[tokio::test(start_paused = true)]
async fn lists_that_are_refused_are_tried_less_and_less_often() {
    for code in [403, 500] {
        let mut played = Played::new();
        let began = Instant::now();
        played.play((0..10).flat_map(|_| refused(code))).await;
        assert!(began.elapsed() > Duration::from_secs(100), "{code}: {:?}", began.elapsed());
    }
}

/// Scenario: many watches start at once. Guarantee: they aren't renewed at once, and each is
/// renewed within 85 s.
#[test]
fn watches_are_renewed_at_different_times() {
    let seconds: BTreeSet<u32> = (0..200).map(|_| watch_seconds()).collect();
    assert!(seconds.len() > 3, "{seconds:?}");
    assert!(seconds.iter().all(|seconds| (75..=85).contains(seconds)), "{seconds:?}");
}
