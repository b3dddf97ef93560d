//! All rules on all traces: who is better at what, as text for people. Writes no file.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::group::Protocol;
use crate::rules;
use crate::run::{Point, run};
use crate::score::{AXES, Score};
use crate::trace::Trace;

/// One rule on one trace: the mean over seeds and protocols, and one run for the plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// The rule.
    pub rule: &'static str,
    /// The mean.
    pub score: Score,
    /// One run.
    pub points: Vec<Point>,
    /// The changes of that run: when, and why.
    pub changes: Vec<(usize, String)>,
}

/// All rules on one trace, ours first.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// The trace.
    pub trace: Trace,
    /// One line for each rule.
    pub lines: Vec<Line>,
}

/// Where another rule is better than ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Miss {
    /// On this trace.
    pub trace: &'static str,
    /// On this axis.
    pub axis: usize,
    /// This rule.
    pub rule: &'static str,
    /// Ours.
    pub ours: f64,
    /// Theirs.
    pub theirs: f64,
    /// What theirs is worse at on this trace, by axis.
    pub worse_at: Vec<usize>,
}

/// Plays all rules on the traces with so many seeds and each protocol, on all processors.
#[must_use]
pub fn sheets(traces: &[Trace], seeds: u64) -> Vec<Sheet> {
    let count = rules::all().len();
    let jobs = traces.len() * count;
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(jobs)));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    let Some(trace) = traces.get(job / count) else { break };
                    let line = line(trace, job % count, seeds);
                    if let (Some(line), Ok(mut done)) = (line, done.lock()) {
                        done.push((job, line));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(job, _)| *job);
    let mut lines = done.into_iter().map(|(_, line)| line);
    let sheet =
        |trace: &Trace| Sheet { trace: trace.clone(), lines: lines.by_ref().take(count).collect() };
    traces.iter().map(sheet).collect()
}

/// One rule on one trace. Of an estate each pool is played once, with its own seed.
fn line(trace: &Trace, rule: usize, seeds: u64) -> Option<Line> {
    let mut total = Score::default();
    let mut first = None;
    let pools = u64::from(trace.pools);
    let runs = if pools > 1 { pools } else { seeds * Protocol::ALL.len() as u64 };
    for nth in 0..runs {
        // The second protocol, the cooperative one, is the one that is plotted.
        let protocol = Protocol::ALL[((nth + 1) % Protocol::ALL.len() as u64) as usize];
        let mut rules = rules::all();
        let rule = rules.get_mut(rule)?;
        let run = run(trace, rule.as_mut(), protocol, 1 + nth);
        total.add(&run.score);
        first.get_or_insert((rule.name(), run.points, run.changes));
    }
    let (rule, points, changes) = first?;
    let score = if pools > 1 { total } else { total.over(runs as f64) };
    Some(Line { rule, score, points, changes })
}

/// Where others are better than ours by more than noise and a twentieth.
#[must_use]
pub fn misses(sheets: &[Sheet]) -> Vec<Miss> {
    let mut misses = Vec::new();
    for Sheet { trace, lines } in sheets {
        let Some((ours, others)) = lines.split_first() else { continue };
        for other in others {
            let worse = (0..AXES.len()).filter(|axis| ours.score.is_better(&other.score, *axis));
            let worse_at: Vec<usize> = worse.collect();
            let better = (0..AXES.len()).filter(|axis| other.score.is_better(&ours.score, *axis));
            misses.extend(better.map(|axis| Miss {
                trace: trace.name,
                axis,
                rule: other.rule,
                ours: ours.score.0[axis],
                theirs: other.score.0[axis],
                worse_at: worse_at.clone(),
            }));
        }
    }
    misses
}

/// The tables and what follows from them, as Markdown.
#[must_use]
pub fn markdown(sheets: &[Sheet]) -> String {
    let mut out = String::new();
    for sheet in sheets {
        table(&mut out, sheet);
    }
    verdict(&mut out, sheets);
    out
}

fn table(out: &mut String, sheet: &Sheet) {
    let Sheet { trace, lines } = sheet;
    let _ = writeln!(out, "### {}\n\n{}\n", trace.name, trace.about);
    let _ = writeln!(out, "![{}]({}.svg)\n", trace.name, file_name(trace.name));
    let _ = writeln!(out, "| rule | {} |", AXES.join(" | "));
    let _ = writeln!(out, "| --- |{}", " ---: |".repeat(AXES.len()));
    for Line { rule, score, .. } in lines {
        let figures = score.0.iter().map(|figure| number(*figure));
        let _ = writeln!(out, "| {rule} | {} |", figures.collect::<Vec<_>>().join(" | "));
    }
    out.push('\n');
}

fn verdict(out: &mut String, sheets: &[Sheet]) {
    let _ = writeln!(out, "### Who is better where\n");
    let _ =
        writeln!(out, "Pairs of trace and axis, {} for each rule:\n", sheets.len() * AXES.len());
    let _ = writeln!(out, "| against | ours better | about equal | theirs better |");
    let _ = writeln!(out, "| --- | ---: | ---: | ---: |");
    let rivals = sheets.first().map_or(0, |sheet| sheet.lines.len());
    for rival in 1..rivals {
        let (mut ours, mut theirs, mut all) = (0, 0, 0);
        for sheet in sheets {
            let (mine, other) = (&sheet.lines[0].score, &sheet.lines[rival].score);
            for axis in 0..AXES.len() {
                all += 1;
                ours += usize::from(mine.is_better(other, axis));
                theirs += usize::from(other.is_better(mine, axis));
            }
        }
        let name = sheets[0].lines[rival].rule;
        let _ = writeln!(out, "| {name} | {ours} | {} | {theirs} |", all - ours - theirs);
    }
    let misses = misses(sheets);
    let _ = writeln!(out, "\n### Where another rule is better on one axis ({})\n", misses.len());
    let _ = writeln!(out, "| trace | axis | ours | theirs | rule | and where that rule is worse |");
    let _ = writeln!(out, "| --- | --- | ---: | ---: | --- | --- |");
    for Miss { trace, axis, rule, ours, theirs, worse_at } in &misses {
        let worse: Vec<&str> = worse_at.iter().map(|axis| AXES[*axis]).collect();
        let worse = if worse.is_empty() { "nowhere".to_owned() } else { worse.join(", ") };
        let (ours, theirs, axis) = (number(*ours), number(*theirs), AXES[*axis]);
        let _ = writeln!(out, "| {trace} | {axis} | {ours} | {theirs} | {rule} | {worse} |");
    }
}

/// The same in columns, for a terminal.
#[must_use]
pub fn text(sheets: &[Sheet]) -> String {
    let mut out = String::new();
    for Sheet { trace, lines } in sheets {
        let _ = writeln!(out, "{}: {}", trace.name, trace.about);
        let _ = write!(out, "  {:<16}", "");
        for axis in AXES {
            let _ = write!(out, "{axis:>20}");
        }
        out.push('\n');
        for Line { rule, score, .. } in lines {
            let _ = write!(out, "  {rule:<16}");
            for figure in score.0 {
                let _ = write!(out, "{:>20}", number(figure));
            }
            out.push('\n');
        }
        out.push('\n');
    }
    for Miss { trace, axis, rule, ours, theirs, worse_at } in misses(sheets) {
        let worse: Vec<&str> = worse_at.iter().map(|axis| AXES[*axis]).collect();
        let worse = if worse.is_empty() { "nothing".to_owned() } else { worse.join(", ") };
        let (ours, theirs, axis) = (number(ours), number(theirs), AXES[axis]);
        let _ = writeln!(
            out,
            "not reached: {trace}, {axis}: ours {ours}, {rule} {theirs} (it is worse at: {worse})"
        );
    }
    out
}

/// A figure with as many digits as it deserves.
fn number(figure: f64) -> String {
    if figure >= 100.0 || figure == 0.0 { format!("{figure:.0}") } else { format!("{figure:.1}") }
}

/// The file name of a trace's plot, without its ending.
#[must_use]
pub fn file_name(trace: &str) -> String {
    trace.replace(' ', "-")
}
