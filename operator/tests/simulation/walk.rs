//! A walk: one seed, one kind, some changes of its spec, and between them whatever may go wrong.
//! At the end all trouble ceases, and the world must come to rest as one without trouble does.

use std::collections::BTreeMap;

use futures::future::join;
use millrace_operator::cache::children::VERIFIED_FOR;

use crate::reconcilers::support::apiserver::{ApiServer, Judge, Verdict};
use crate::simulation::cluster::{
    self, Pods, meddle, object, run_workloads, secret, secret_path, walked,
};
use crate::simulation::instance::{Instance, OURS, plural};
use crate::simulation::outside::{Beyond, Broken};
use crate::simulation::rng::Rng;
use crate::simulation::truth;

/// Rounds in which a world without trouble must come to rest.
const ROUNDS_MAX: usize = 40;
/// Rounds before rest is asked for.
const ROUNDS_MIN: usize = 6;
/// A round's time: after those, nothing counts as verified that was before.
const ROUND_SECONDS: i64 = VERIFIED_FOR.as_secs() / ROUNDS_MIN as i64 + 1;

/// A cluster, its operators, and the world outside.
struct World {
    server: ApiServer,
    beyond: Beyond,
    operators: Vec<Instance>,
    /// Changes up to here were held against the truth.
    checked: usize,
}

/// What one walk came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Score {
    pub(crate) edges: usize,
    pub(crate) reconciles: usize,
    pub(crate) deaths: usize,
    /// Writes that say that the first nodes of a change were watched to the end.
    pub(crate) canaries: usize,
}

/// Walks `edges` changes of an object of `kind` by `seed`.
///
/// # Errors
/// What was found wrong, for people.
pub(crate) async fn walk(
    kind: &str,
    seed: u64,
    edges: usize,
    broken: Broken,
) -> Result<Score, String> {
    let mut rng = Rng::new(seed);
    let mut world = World::with(ApiServer::default(), Beyond::broken(broken));
    let mut score = Score::default();
    let mut passwords = BTreeMap::from([("user-a", "1".to_owned()), ("user-b", "1".to_owned())]);
    for (name, password) in &passwords {
        world.server.put(&secret_path(name), secret(password));
    }
    world.server.put(&walked(kind), object(kind, cluster::spec(kind, &mut rng)));
    if kind == "gatewaypools" {
        // Pools wait for the tables that they write to.
        let spec = cluster::spec("telemetryschemas", &mut rng);
        world.server.put(&walked("telemetryschemas"), object("telemetryschemas", spec));
    }
    for edge in 0..edges {
        change(&world, kind, &mut rng, &mut passwords, edge);
        score.edges += 1;
        let judge = rng.chance(75).then(|| trouble(rng.next()));
        world.server.set_judge(judge);
        for _ in 0..2 + rng.below(6) {
            world.step(&mut rng, &mut score).await?;
        }
    }
    world.server.set_judge(None);
    user_resumes(&world, kind);
    world.rest(&mut score).await?;
    world.ends_ready(kind)?;
    world.compare(kind, &mut score).await?;
    let writes = world.server.log_since(0).into_iter().filter_map(|change| change.value);
    score.canaries = writes.filter(|it| truth::has_watched_canaries(it)).count();
    Ok(score)
}

/// A user changes something, or someone meddles.
fn change(
    world: &World,
    kind: &str,
    rng: &mut Rng,
    passwords: &mut BTreeMap<&str, String>,
    edge: usize,
) {
    let (server, path) = (&world.server, walked(kind));
    if server.get(&path).is_none() {
        server.put(&path, object(kind, cluster::spec(kind, rng)));
    }
    match rng.below(20) {
        0 => server.ask_to_delete(&path),
        1 => server.edit(&path, |it| {
            it["spec"]["paused"] = true.into();
        }),
        2 => user_resumes(world, kind),
        3 | 4 => {
            let name = *rng.pick(&["user-a", "user-b"]);
            passwords.insert(name, format!("p{edge}"));
            server.put(&secret_path(name), secret(&passwords[name]));
        }
        5 => meddle(server, rng),
        6 => world.beyond.set_kafka_away(rng.chance(50)),
        7 => world.beyond.set_lag_above(rng.chance(50)),
        _ => {
            let spec = cluster::spec(kind, rng);
            server.edit(&path, |it| it["spec"] = spec);
        }
    }
}

fn user_resumes(world: &World, kind: &str) {
    let path = walked(kind);
    if world.server.get(&path).is_some() {
        world.server.edit(&path, |it| it["spec"]["paused"] = false.into());
    }
}

/// Requests that fail, whose answers are lost, or during which the operator dies.
fn trouble(seed: u64) -> Judge {
    let mut rng = Rng::new(seed);
    Box::new(move |method, path| {
        if path.contains("/events") {
            return (Verdict::Do, 0);
        }
        let turns = rng.below(4) as u32;
        let writes = *method != http::Method::GET;
        let verdict = match rng.below(100) {
            0 | 1 => Verdict::Refuse(*rng.pick(&[429, 500, 503])),
            2 if writes => Verdict::Refuse(*rng.pick(&[409, 422])),
            3 | 4 if writes => Verdict::Lose,
            5 if writes => Verdict::DieBefore,
            6 if writes => Verdict::DieAfter,
            _ => Verdict::Do,
        };
        (verdict, turns)
    })
}

impl World {
    fn with(server: ApiServer, beyond: Beyond) -> Self {
        Self { server, beyond, operators: Vec::new(), checked: 0 }
    }

    /// Something happens, by chance.
    async fn step(&mut self, rng: &mut Rng, score: &mut Score) -> Result<(), String> {
        // Two, when a leader was taken for dead and is not.
        while self.operators.len() < 1 + usize::from(rng.chance(20)) {
            self.operators.push(Instance::start(&self.server, &self.beyond));
        }
        for operator in &mut self.operators {
            for _ in 0..rng.below(12) {
                let watch = rng.below(operator.watch_count());
                match rng.below(40) {
                    0 => operator.break_watch(watch),
                    1 => operator.lose(watch),
                    2 => operator.list(watch),
                    _ => operator.deliver(watch, 1 + rng.below(8), rng.chance(10)),
                }
            }
            if rng.chance(30) {
                operator.catch_up();
            }
            if rng.chance(10) {
                operator.all_due();
            }
        }
        if rng.chance(50) {
            run_workloads(&self.server, || match rng.below(3) {
                0 => None,
                1 => Some(Pods::Some),
                _ => Some(Pods::Complete),
            });
        }
        if rng.chance(50) {
            self.server.collect_garbage();
        }
        self.beyond.pass(rng.below(30) as i64);
        if self.operators.len() > 1 && rng.chance(70) {
            return self.both(rng, score).await;
        }
        for _ in 0..1 + rng.below(3) {
            let Some(operator) = self.operators.first_mut() else { return Ok(()) };
            let dirty: Vec<String> = operator.dirty.iter().cloned().collect();
            if dirty.is_empty() {
                break;
            }
            let path = rng.pick(&dirty).clone();
            self.reconcile(&path, score).await?;
        }
        Ok(())
    }

    /// The first operator reconciles one object, unless it dies meanwhile.
    async fn reconcile(&mut self, path: &str, score: &mut Score) -> Result<(), String> {
        let died = self.server.died();
        let Some(operator) = self.operators.first_mut() else { return Ok(()) };
        let since = operator.read_up_to();
        score.reconciles += 1;
        let is_dead = tokio::select! {
            biased;
            () = died.notified() => true,
            _ = operator.reconcile(path) => false,
        };
        if is_dead {
            score.deaths += 1;
            self.operators.clear();
        }
        self.check(since)
    }

    /// Two operators reconcile at once, request by request; whoever dies takes the other along.
    async fn both(&mut self, rng: &mut Rng, score: &mut Score) -> Result<(), String> {
        let died = self.server.died();
        let since = self.operators.iter().map(Instance::read_up_to).min().unwrap_or(0);
        let Some((first, rest)) = self.operators.split_first_mut() else { return Ok(()) };
        let Some(second) = rest.first_mut() else { return Ok(()) };
        let mut one = |operator: &Instance| {
            let dirty: Vec<String> = operator.dirty.iter().cloned().collect();
            if dirty.is_empty() { String::new() } else { rng.pick(&dirty).clone() }
        };
        let (a, b) = (one(first), one(second));
        score.reconciles += 2;
        let is_dead = tokio::select! {
            biased;
            () = died.notified() => true,
            _ = join(first.reconcile(&a), second.reconcile(&b)) => false,
        };
        if is_dead {
            score.deaths += 1;
            self.operators.clear();
        } else if rng.chance(30) {
            // The old leader has noticed.
            self.operators.remove(0);
        }
        self.check(since)
    }

    fn check(&mut self, since: usize) -> Result<(), String> {
        let from = std::mem::replace(&mut self.checked, self.server.log_len());
        truth::check(&self.server, &self.beyond, from, since)
    }

    /// All trouble ceases: comes to rest, then holds still, also under a new operator.
    async fn rest(&mut self, score: &mut Score) -> Result<(), String> {
        self.beyond.set_kafka_away(false);
        self.beyond.set_lag_above(false);
        self.operators.truncate(1);
        if self.operators.is_empty() {
            self.operators.push(Instance::start(&self.server, &self.beyond));
        }
        self.operators.iter_mut().for_each(Instance::list_own);
        let mut last = String::new();
        for round in 0..ROUNDS_MAX {
            self.beyond.pass(ROUND_SECONDS);
            let before = self.server.log_len();
            self.everything(score).await?;
            if round < ROUNDS_MIN {
                continue;
            }
            // Nothing happens and no time passes: once more must write nothing.
            if self.server.log_len() == before || self.is_still(score).await? {
                self.operators = vec![Instance::start(&self.server, &self.beyond)];
                return match self.is_still(score).await? {
                    true => Ok(()),
                    false => Err(format!("a new operator writes: {}", self.last_write())),
                };
            }
            last = self.last_write();
        }
        Err(format!("never comes to rest; the last write was {last}"))
    }

    /// With all trouble over, what was walked is as asked for, unless a walk asked for what only a
    /// person may agree to. Without this, operators that do
    /// nothing at all would end as in a quiet world.
    fn ends_ready(&self, kind: &str) -> Result<(), String> {
        let path = walked(kind);
        match self.server.get(&path) {
            // Deleted by its user in the end.
            None => Ok(()),
            Some(value) if truth::says_ready(&value) => Ok(()),
            Some(value) if truth::waits_for_a_person(&value) => Ok(()),
            Some(value) => Err(format!("{path} ends as {}", truth::ready(&value))),
        }
    }

    async fn is_still(&mut self, score: &mut Score) -> Result<bool, String> {
        let before = self.server.log_len();
        self.server.take_writes();
        self.everything(score).await?;
        Ok(self.server.log_len() == before && self.server.take_writes().is_empty())
    }

    fn last_write(&self) -> String {
        let log = self.server.log_since(self.server.log_len().saturating_sub(1));
        log.last().map_or_else(String::new, |it| {
            let status = it.value.as_ref().map(|it| it["status"].to_string());
            format!("{} {}", it.path, status.unwrap_or_else(|| "gone".into()))
        })
    }

    /// Everybody looks at everything, once.
    async fn everything(&mut self, score: &mut Score) -> Result<(), String> {
        run_workloads(&self.server, || Some(Pods::Complete));
        while self.server.collect_garbage() {}
        let Some(operator) = self.operators.first_mut() else { return Ok(()) };
        operator.catch_up();
        operator.all_due();
        let mut due: Vec<String> = operator.dirty.iter().cloned().collect();
        // Those that others wait for come first.
        due.sort_by_key(|path| std::cmp::Reverse(OURS.iter().position(|it| *it == plural(path))));
        for path in due {
            self.reconcile(&path, score).await?;
            if let Some(operator) = self.operators.first_mut() {
                operator.catch_up();
            }
        }
        Ok(())
    }

    /// The same specs in a world that never had trouble.
    async fn compare(&mut self, kind: &str, score: &mut Score) -> Result<(), String> {
        let mut quiet = Self::with(ApiServer::default(), self.beyond.clone());
        for path in self.server.paths() {
            let value = self.server.get(&path).unwrap();
            let is_users = value["metadata"]["ownerReferences"].is_null();
            if is_users && plural(&path) == "secrets" {
                quiet.server.put(&path, value);
            } else if is_users && OURS.contains(&plural(&path)) {
                quiet.server.put(&path, object(plural(&path), value["spec"].clone()));
            }
        }
        quiet.rest(score).await.map_err(|error| format!("the quiet world: {error}"))?;
        let (mut wanted, mut found) = (truth::essence(&quiet.server), truth::essence(&self.server));
        // A pipeline's first gateways wait for tables that fit; those that run stay when a change of
        // the tables waits for a person.
        let waits = |server: &ApiServer| {
            server.get(&walked(kind)).is_some_and(|it| truth::ready(&it).contains("SchemaReady"))
        };
        if waits(&quiet.server) && waits(&self.server) {
            truth::forget_gateways(&mut wanted);
            truth::forget_gateways(&mut found);
        }
        truth::difference(&wanted, &found).map_or(Ok(()), |difference| {
            let ready = |server: &ApiServer| server.get(&walked(kind)).map(|it| truth::ready(&it));
            let (here, there) = (ready(&self.server), ready(&quiet.server));
            Err(format!("{difference}; here {here:?}, in the quiet world {there:?}"))
        })
    }
}
