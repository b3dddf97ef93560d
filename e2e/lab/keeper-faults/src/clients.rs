//! Sessions at work: each writes, reads, watches and syncs by chance, up to three requests at a
//! time, and begins anew when it has ended.
//!
//! A request's task writes down its answer and at once looks for its watch's event. The runtime has one thread
//! and wakes tasks in turn, so notifications and answers are written down in the order in which the
//! connection delivered them.

use std::sync::Arc;
use std::time::Duration;

use millrace_keeper_histories::{
    Change, Key, Operation, Outcome, Refusal, Seen, Session, Task, Value, WatchId, WatchKind,
    Write, Zxid,
};
use millrace_stack::random::Random;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use zookeeper_client::{
    Acls, Client, CreateMode, Error, EventType, MultiWriteError, MultiWriteResult, OneshotWatcher,
    SessionState, Stat, WatchedEvent,
};

use crate::recorder::Recorder;

/// Sessions at a time.
pub const SESSIONS: u64 = 5;
/// Nodes that stay; they are numbered from 0.
const PLAIN: u32 = 3;
/// Nodes that go with their session, numbered after those.
const EPHEMERAL: u32 = 2;
/// What a session asks of its servers; with a tick of 250 ms they grant 0.5 to 5 s.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(2);
/// Between a session's turns: 5 sessions with 1 to 3 requests then make some 1,000 a second at most,
/// and a node's share of a strike is placed in well under a second.
const PAUSE: Duration = Duration::from_millis(10);
/// A session that can't connect tries again for as long as a strike takes.
pub const RETRY: Duration = Duration::from_millis(200);
/// What the last look may take: servers serve by then.
const LAST_LOOK: Duration = Duration::from_secs(30);

/// What all sessions of a round share.
#[derive(Debug, Clone)]
pub struct Round {
    /// Where it is written down.
    pub recorder: Arc<Recorder>,
    /// `host:port,host:port/chroot`.
    pub cluster: String,
    /// Whether it is over.
    pub over: watch::Receiver<bool>,
}

/// Works until the round is over, in one session after the other. Returns the last one, if it lives.
pub async fn work(round: Round, mut random: Random) -> Option<(Client, Session)> {
    while !*round.over.borrow() {
        let connector = Client::connector().with_session_timeout(SESSION_TIMEOUT);
        let Ok(client) = connector.connect(&round.cluster).await else {
            sleep(RETRY).await;
            continue;
        };
        let session = round.recorder.session();
        tokio::spawn(note_moves(client.clone(), session, Arc::clone(&round.recorder)));
        if live(&round, &client, session, &mut random).await {
            return Some((client, session));
        }
        round.recorder.ending(session);
    }
    None
}

/// Whether the session outlives the round. It may also end itself.
async fn live(round: &Round, client: &Client, session: Session, random: &mut Random) -> bool {
    while !*round.over.borrow() {
        if client.state().is_terminated() || random.below(400) == 0 {
            return false;
        }
        let mut ends = Vec::new();
        for _ in 0..=random.below(3) {
            for task in tasks(&round.recorder, random) {
                ends.push(send(&round.recorder, client, session, task));
            }
        }
        for end in ends {
            let _ = end.await;
        }
        sleep(PAUSE).await;
    }
    !client.state().is_terminated()
}

async fn note_moves(client: Client, session: Session, recorder: Arc<Recorder>) {
    let mut states = client.state_watcher();
    // The session must be able to end while this waits.
    drop(client);
    loop {
        match states.changed().await {
            SessionState::Disconnected => recorder.moved(session),
            state if state.is_terminated() => return,
            _ => {}
        }
    }
}

/// A sync and a read of every node, for the round's end.
///
/// # Errors
/// When it is not done within 30 s.
pub async fn look(
    recorder: &Arc<Recorder>,
    client: &Client,
    session: Session,
) -> Result<(), String> {
    let look = async {
        let keys = (0..PLAIN + EPHEMERAL).map(|key| Task::Read { key: Key(key), watch: None });
        let mut ends = vec![send(recorder, client, session, Task::Sync)];
        ends.extend(keys.map(|task| send(recorder, client, session, task)));
        for end in ends {
            if end.await != Ok(true) {
                return Err(format!("the last look of {session:?} was not answered"));
            }
        }
        Ok(())
    };
    let late = Err(format!("the last look of {session:?} took over {LAST_LOOK:?}"));
    timeout(LAST_LOOK, look).await.unwrap_or(late)
}

/// Hands a request to a task of its own; the answer's end is whether there was one.
fn send(
    recorder: &Arc<Recorder>,
    client: &Client,
    session: Session,
    mut task: Task,
) -> oneshot::Receiver<bool> {
    let (told, end) = oneshot::channel();
    let (recorder, client) = (Arc::clone(recorder), client.clone());
    tokio::spawn(async move {
        let begun = recorder.stamp();
        let (outcome, watcher) = ask(&recorder, &client, &task).await;
        drop(client);
        let answered = outcome != Outcome::Unknown;
        let ended = Some(recorder.stamp());
        let left = match &mut task {
            // A node that is not there takes no watch.
            Task::Read { watch, .. } => {
                *watch = watch.filter(|_| watcher.is_some());
                *watch
            }
            _ => None,
        };
        recorder.operation(Operation { session, begun, ended, task, outcome });
        let _ = told.send(answered);
        if let (Some(watcher), Some((watch, _))) = (watcher, left) {
            note_event(&recorder, watch, watcher).await;
        }
    });
    end
}

/// Waits for a watch. An event that came with the answer, before its task ran, may have come after
/// those of other tasks: its number, by which it would be put in order, is left out.
async fn note_event(recorder: &Recorder, watch: WatchId, watcher: OneshotWatcher) {
    let mut changed = std::pin::pin!(watcher.changed());
    let (event, in_order) = tokio::select! {
        biased;
        event = &mut changed => (event, false),
        () = std::future::ready(()) => (changed.await, true),
    };
    if event.event_type != EventType::Session {
        recorder.fired(watch, if in_order { event.zxid } else { WatchedEvent::NO_ZXID });
    }
}

/// Sends a request and says what came of it.
async fn ask(
    recorder: &Recorder,
    client: &Client,
    task: &Task,
) -> (Outcome, Option<OneshotWatcher>) {
    match task {
        Task::Sync => match client.sync("/").await {
            Ok(()) => (Outcome::Synced, None),
            Err(_) => (Outcome::Unknown, None),
        },
        Task::Read { key, watch: None } => (read(client.get_data(&path(*key)).await), None),
        Task::Read { key, watch: Some(_) } => match client.get_and_watch_data(&path(*key)).await {
            Ok((data, stat, watcher)) => (read(Ok((data, stat))), Some(watcher)),
            Err(error) => (read(Err(error)), None),
        },
        Task::Write(writes) => {
            let outcome = match writes.as_slice() {
                [write] => single(recorder, client, *write).await,
                writes => together(client, writes).await,
            };
            (outcome, None)
        }
    }
}

async fn single(recorder: &Recorder, client: &Client, write: Write) -> Outcome {
    let path = path(write.key);
    let zxid = match write.change {
        Change::Create { value, ephemeral } => {
            let options = mode(ephemeral).with_acls(Acls::anyone_all());
            let made = client.create(&path, &data(value), &options).await;
            made.map(|(stat, _)| {
                recorder.clock(&stat);
                zxid(stat.czxid)
            })
        }
        Change::Set { value, version } => {
            let set = client.set_data(&path, &data(value), version).await;
            set.map(|stat| zxid(stat.mzxid))
        }
        Change::Delete { version } => client.delete(&path, version).await.map(|()| None),
        // It is never sent alone.
        Change::Check { .. } => return Outcome::NotDone,
    };
    match zxid {
        Ok(zxid) => Outcome::Written(vec![zxid]),
        Err(error) => refused(0, &error),
    }
}

async fn together(client: &Client, writes: &[Write]) -> Outcome {
    let mut writer = client.new_multi_writer();
    for Write { key, change } in writes {
        let path = path(*key);
        let added = match *change {
            Change::Create { value, ephemeral } => {
                let options = mode(ephemeral).with_acls(Acls::anyone_all());
                writer.add_create(&path, &data(value), &options)
            }
            Change::Set { value, version } => writer.add_set_data(&path, &data(value), version),
            Change::Delete { version } => writer.add_delete(&path, version),
            Change::Check { version } => writer.add_check_version(&path, version),
        };
        if added.is_err() {
            return Outcome::NotDone;
        }
    }
    match writer.commit().await {
        Ok(results) => Outcome::Written(results.iter().map(part).collect()),
        Err(MultiWriteError::OperationFailed { index, source }) => refused(index, &source),
        Err(MultiWriteError::RequestFailed { .. }) => Outcome::Unknown,
    }
}

fn part(result: &MultiWriteResult) -> Option<Zxid> {
    match result {
        MultiWriteResult::Create { stat, .. } => zxid(stat.czxid),
        MultiWriteResult::SetData { stat } => zxid(stat.mzxid),
        _ => None,
    }
}

/// Whatever is not about the data leaves open whether the write is done.
fn refused(part: usize, error: &Error) -> Outcome {
    let why = match error {
        Error::NoNode => Refusal::NoNode,
        Error::NodeExists => Refusal::NodeExists,
        Error::BadVersion => Refusal::BadVersion,
        _ => return Outcome::Unknown,
    };
    Outcome::Refused { part, why }
}

fn read(answer: Result<(Vec<u8>, Stat), Error>) -> Outcome {
    match answer {
        Ok((data, stat)) => {
            // What is no number was written by nobody.
            let value = std::str::from_utf8(&data).ok().and_then(|text| text.parse().ok());
            Outcome::Read(Some(Seen {
                value: Value(value.unwrap_or(u64::MAX)),
                version: stat.version,
                czxid: Zxid(stat.czxid),
                mzxid: Zxid(stat.mzxid),
            }))
        }
        Err(Error::NoNode) => Outcome::Read(None),
        Err(_) => Outcome::Unknown,
    }
}

/// What a session does next: one request, or a read after a `sync`.
fn tasks(recorder: &Recorder, random: &mut Random) -> Vec<Task> {
    let key = Key(random.below(u64::from(PLAIN + EPHEMERAL)) as u32);
    match random.below(20) {
        0..2 => vec![Task::Sync, Task::Read { key, watch: None }],
        2..9 => {
            let watch = random.chance(60).then(|| (recorder.watch(), WatchKind::Once));
            vec![Task::Read { key, watch }]
        }
        9..13 => {
            let first = random.below(u64::from(PLAIN)) as u32;
            let keys = [Key(first), Key((first + 1) % PLAIN)];
            vec![Task::Write(keys.map(|key| change(recorder, random, key, true)).to_vec())]
        }
        _ => vec![Task::Write(vec![change(recorder, random, key, false)])],
    }
}

fn change(recorder: &Recorder, random: &mut Random, key: Key, together: bool) -> Write {
    let value = recorder.value();
    let ephemeral = key.0 >= PLAIN;
    // Versions are small just after a node was made, and any is right now and then.
    let version = random.chance(20).then(|| random.below(8) as i32);
    let change = match random.below(10) {
        0..3 => Change::Create { value, ephemeral },
        3 => Change::Delete { version },
        4 if together => Change::Check { version: version.unwrap_or(0) },
        _ => Change::Set { value, version },
    };
    Write { key, change }
}

fn path(key: Key) -> String {
    format!("/{}", key.0)
}

fn data(value: Value) -> Vec<u8> {
    value.0.to_string().into_bytes()
}

const fn mode(ephemeral: bool) -> CreateMode {
    if ephemeral { CreateMode::Ephemeral } else { CreateMode::Persistent }
}

/// A number that an answer has; older servers answer some writes without one.
fn zxid(number: i64) -> Option<Zxid> {
    (number > 0).then_some(Zxid(number))
}
