//! A ZooKeeper that keeps its promises, in discrete steps: one log, servers that lag behind it, and
//! sessions that write, read, lose their connection and end. It gives right histories, by seed.

use std::collections::BTreeMap;

use millrace_keeper_histories::{
    Change, Ending, Fired, History, Key, Moved, Operation, Outcome, Refusal, Seen, Session, Stamp,
    Task, Value, WatchId, WatchKind, Write, Zxid,
};

/// Room between stamps and between transactions, for mutations.
const GAP: u64 = 10;
const SERVERS: usize = 3;
/// Nodes that stay.
pub(crate) const PLAIN: std::ops::Range<u32> = 0..3;
/// Nodes that go with their session.
pub(crate) const EPHEMERAL: std::ops::Range<u32> = 10..12;

/// Steele's splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

#[derive(Clone, Copy)]
struct Node {
    seen: Seen,
    owner: Option<Session>,
}

type Nodes = BTreeMap<Key, Node>;

/// A transaction, as servers apply it.
struct Applied {
    zxid: Zxid,
    touched: Vec<Key>,
    after: Nodes,
}

struct Watching {
    watch: WatchId,
    kind: WatchKind,
    key: Key,
    mzxid: Zxid,
}

enum Stage {
    Begun,
    /// Answered once the server has applied so many transactions.
    Waits(usize, Outcome),
}

struct Client {
    session: Session,
    server: usize,
    seen: usize,
    pending: Option<(Stamp, Task, Stage)>,
    /// A write whose answer was lost, which the leader has not seen yet.
    orphan: Option<Vec<Write>>,
    watching: Vec<Watching>,
}

struct World {
    random: Random,
    now: Stamp,
    value: u64,
    watch: u64,
    sessions: u32,
    log: Vec<Applied>,
    servers: [usize; SERVERS],
    clients: Vec<Client>,
    history: History,
}

/// The history of a seed: so many sessions at a time, and steps.
pub(crate) fn history(seed: u64, clients: usize, steps: usize) -> History {
    let mut world = World {
        random: Random(seed),
        now: 0,
        value: 0,
        watch: 0,
        sessions: 0,
        log: Vec::new(),
        servers: [0; SERVERS],
        clients: Vec::new(),
        history: History::default(),
    };
    (0..clients).for_each(|_| world.connect());
    for _ in 0..steps {
        if world.random.below(3) == 0 {
            let server = world.random.below(SERVERS as u64) as usize;
            world.catch_up(server);
        } else {
            let client = world.random.below(clients as u64) as usize;
            world.step(client);
        }
    }
    world.end();
    world.history
}

impl World {
    fn tick(&mut self) -> Stamp {
        self.now += GAP;
        self.now
    }

    fn chance(&mut self, of_hundred: u64) -> bool {
        self.random.below(100) < of_hundred
    }

    fn connect(&mut self) {
        let server = self.random.below(SERVERS as u64) as usize;
        let session = Session(self.sessions);
        self.sessions += 1;
        self.clients.push(Client {
            session,
            server,
            seen: 0,
            pending: None,
            orphan: None,
            watching: Vec::new(),
        });
    }

    fn nodes(&self, applied: usize) -> Nodes {
        applied.checked_sub(1).map(|last| self.log[last].after.clone()).unwrap_or_default()
    }

    fn catch_up(&mut self, server: usize) {
        let Some(applied) = self.log.get(self.servers[server]) else { return };
        let (zxid, touched) = (applied.zxid, applied.touched.clone());
        self.servers[server] += 1;
        for place in 0..self.clients.len() {
            if self.clients[place].server != server {
                continue;
            }
            let watching = std::mem::take(&mut self.clients[place].watching);
            for one in watching {
                if touched.contains(&one.key) {
                    let at = self.tick();
                    self.history.fired.push(Fired { watch: one.watch, at, zxid: Some(zxid) });
                    if one.kind == WatchKind::Once {
                        continue;
                    }
                }
                self.clients[place].watching.push(one);
            }
        }
    }

    fn step(&mut self, place: usize) {
        match self.clients[place].pending.take() {
            None if self.chance(2) => self.close(place),
            None => {
                self.settle(place);
                let task = self.task();
                let begun = self.tick();
                self.clients[place].pending = Some((begun, task, Stage::Begun));
            }
            Some((begun, task, stage)) if self.chance(4) => self.lose(place, begun, task, &stage),
            Some((begun, task, Stage::Begun)) => self.submit(place, begun, task),
            Some((begun, task, Stage::Waits(count, outcome))) => {
                let server = self.clients[place].server;
                if self.servers[server] >= count {
                    self.answer(place, begun, task, outcome);
                } else {
                    self.catch_up(server);
                    self.clients[place].pending = Some((begun, task, Stage::Waits(count, outcome)));
                }
            }
        }
    }

    fn answer(&mut self, place: usize, begun: Stamp, task: Task, outcome: Outcome) {
        let ended = Some(self.tick());
        let client = &mut self.clients[place];
        client.seen = client.seen.max(self.servers[client.server]);
        let session = client.session;
        self.history.operations.push(Operation { session, begun, ended, task, outcome });
    }

    fn submit(&mut self, place: usize, begun: Stamp, mut task: Task) {
        let client = &self.clients[place];
        let (session, server) = (client.session, client.server);
        match &mut task {
            Task::Write(writes) => {
                let outcome = self.write(session, writes);
                let waits = Stage::Waits(self.log.len(), outcome);
                self.clients[place].pending = Some((begun, task, waits));
            }
            Task::Sync => {
                let waits = Stage::Waits(self.log.len(), Outcome::Synced);
                self.clients[place].pending = Some((begun, task, waits));
            }
            Task::Read { key, watch } => {
                let node = self.nodes(self.servers[server]).get(key).copied();
                match (node, &watch) {
                    (Some(node), Some((id, kind))) => {
                        let (watch, kind, key) = (*id, *kind, *key);
                        let mzxid = node.seen.mzxid;
                        let watching = Watching { watch, kind, key, mzxid };
                        self.clients[place].watching.push(watching);
                    }
                    _ => *watch = None,
                }
                self.answer(place, begun, task, Outcome::Read(node.map(|node| node.seen)));
            }
        }
    }

    /// What the leader does with a write.
    fn write(&mut self, session: Session, writes: &[Write]) -> Outcome {
        let mut nodes = self.nodes(self.log.len());
        let zxid = Zxid(((self.log.len() as u64 + 1) * GAP) as i64);
        let mut parts = Vec::new();
        for (part, Write { key, change }) in writes.iter().enumerate() {
            let node = nodes.get(key).copied();
            let refused = |why| Outcome::Refused { part, why };
            let expected = match change {
                Change::Create { .. } if node.is_some() => return refused(Refusal::NodeExists),
                Change::Create { .. } => None,
                Change::Set { .. } | Change::Delete { .. } | Change::Check { .. }
                    if node.is_none() =>
                {
                    return refused(Refusal::NoNode);
                }
                Change::Set { version, .. } | Change::Delete { version } => *version,
                Change::Check { version } => Some(*version),
            };
            if node.zip(expected).is_some_and(|(node, version)| node.seen.version != version) {
                return refused(Refusal::BadVersion);
            }
            match *change {
                Change::Create { value, ephemeral } => {
                    let seen = Seen { value, version: 0, czxid: zxid, mzxid: zxid };
                    nodes.insert(*key, Node { seen, owner: ephemeral.then_some(session) });
                }
                Change::Set { value, .. } => {
                    let seen = &mut nodes.get_mut(key).unwrap().seen;
                    *seen = Seen { value, version: seen.version + 1, mzxid: zxid, ..*seen };
                }
                Change::Delete { .. } => {
                    nodes.remove(key);
                }
                Change::Check { .. } => {}
            }
            parts.push(change.value().map(|_| zxid));
        }
        let check = |change| matches!(change, Change::Check { .. });
        let touched = writes.iter().filter(|write| !check(write.change));
        let touched = touched.map(|write| write.key).collect();
        self.log.push(Applied { zxid, touched, after: nodes });
        Outcome::Written(parts)
    }

    /// The connection breaks; the client goes to a server that is as far as what it has seen.
    fn lose(&mut self, place: usize, begun: Stamp, task: Task, stage: &Stage) {
        let session = self.clients[place].session;
        if let (Task::Write(writes), Stage::Begun) = (&task, stage) {
            self.clients[place].orphan = Some(writes.clone());
        }
        let (ended, outcome) = (Some(self.tick()), Outcome::Unknown);
        self.history.operations.push(Operation { session, begun, ended, task, outcome });
        let at = self.tick();
        self.history.moved.push(Moved { session, at });
        let server = self.random.below(SERVERS as u64) as usize;
        while self.servers[server] < self.clients[place].seen {
            self.catch_up(server);
        }
        self.clients[place].server = server;
        let nodes = self.nodes(self.servers[server]);
        for one in std::mem::take(&mut self.clients[place].watching) {
            let mzxid = nodes.get(&one.key).map(|node| node.seen.mzxid);
            if mzxid == Some(one.mzxid) || one.kind == WatchKind::Persistent {
                self.clients[place].watching.push(one);
            } else {
                let at = self.tick();
                self.history.fired.push(Fired { watch: one.watch, at, zxid: None });
            }
        }
    }

    /// What was on its way arrives or is lost for good.
    fn settle(&mut self, place: usize) {
        if let Some(writes) = self.clients[place].orphan.take()
            && self.chance(50)
        {
            let session = self.clients[place].session;
            self.write(session, &writes);
        }
    }

    fn close(&mut self, place: usize) {
        self.settle(place);
        let (from, session) = (self.tick(), self.clients[place].session);
        let mut nodes = self.nodes(self.log.len());
        let owned = nodes.iter().filter(|(_, node)| node.owner == Some(session));
        let touched: Vec<Key> = owned.map(|(key, _)| *key).collect();
        for key in &touched {
            nodes.remove(key);
        }
        let zxid = Zxid(((self.log.len() as u64 + 1) * GAP) as i64);
        self.log.push(Applied { zxid, touched, after: nodes });
        let gone_by = self.chance(70).then(|| self.tick());
        self.history.endings.push(Ending { session, from, gone_by });
        self.connect();
        let client = self.clients.pop().unwrap();
        self.clients[place] = client;
    }

    fn task(&mut self) -> Task {
        match self.random.below(10) {
            0 => Task::Sync,
            1..=3 => {
                let key = self.key();
                self.watch += 1;
                let kind = if self.chance(70) { WatchKind::Once } else { WatchKind::Persistent };
                let watch = self.chance(60).then_some((WatchId(self.watch), kind));
                Task::Read { key, watch }
            }
            4 => {
                let first = Key(self.random.below(3) as u32);
                let second = Key((first.0 + 1) % 3);
                Task::Write([first, second].map(|key| self.change(key)).to_vec())
            }
            _ => {
                let key = self.key();
                Task::Write(vec![self.change(key)])
            }
        }
    }

    fn key(&mut self) -> Key {
        match self.random.below(5) {
            place @ 0..3 => Key(PLAIN.start + place as u32),
            place => Key(EPHEMERAL.start + place as u32 - 3),
        }
    }

    fn change(&mut self, key: Key) -> Write {
        self.value += 1;
        let value = Value(self.value);
        let ephemeral = EPHEMERAL.contains(&key.0);
        let node = self.nodes(self.log.len()).get(&key).copied();
        let version = node.filter(|_| self.chance(40)).map(|node| node.seen.version);
        let change = match (self.random.below(10), node) {
            (0, _) => Change::Create { value, ephemeral },
            (1..8, Some(_)) => Change::Set { value, version },
            (1..8, None) => Change::Create { value, ephemeral },
            (8, _) => Change::Check { version: version.unwrap_or(0) },
            _ => Change::Delete { version },
        };
        Write { key, change }
    }

    /// Everybody ends what it does, catches up, and reads everything.
    fn end(&mut self) {
        for place in 0..self.clients.len() {
            while self.clients[place].pending.is_some() {
                self.step(place);
            }
            self.settle(place);
        }
        for place in 0..self.clients.len() {
            let begun = self.tick();
            self.submit(place, begun, Task::Sync);
            while self.servers[self.clients[place].server] < self.log.len() {
                self.catch_up(self.clients[place].server);
            }
            self.clients[place].pending = None;
            self.answer(place, begun, Task::Sync, Outcome::Synced);
            for key in PLAIN.chain(EPHEMERAL) {
                let begun = self.tick();
                self.submit(place, begun, Task::Read { key: Key(key), watch: None });
            }
        }
    }
}
