//! Declarations of tables, and what a server says of its own: statements are always the template of
//! their options with the given names inside quotes, whatever the names.
//!
//! An input is three control bytes that choose signal, engine and layout, and lines of text: names
//! and times. A line that is refused leaves its default.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::str::FromStr;

use millrace_ddl::{
    AttributeColumn, AttributeIndex, AttributePath, AttributeStorage, BodyIndex, ColumnCompression,
    ComputedType, Declared, Engine, Identifier, Layout, Loss, Materialized, Move, Observed,
    ObservedColumn, ObservedIndex, ObservedTable, PartitionInterval, Presence, Reader, Replication,
    Signals, Storage, TableKind, TableOptions, TableOrigin, Ttl, TypedPath, detect_origin,
    plan_migration, render,
};

use crate::words::sql::Tokens;

/// Templates kept at once: some kilobytes each.
const TEMPLATES_MAX: usize = 1000;

/// Lines of an input, or their defaults.
struct Lines<'a> {
    lines: std::str::Split<'a, char>,
    /// What every line given stood for, by its default.
    given: Vec<(&'static str, String)>,
}

impl Lines<'_> {
    fn next<T: FromStr + ToString>(&mut self, default: &'static str) -> Option<T> {
        if let Some(value) = self.lines.next().and_then(|line| line.parse::<T>().ok()) {
            // Times aren't names: what they become is looked at as intervals.
            if default.contains("dflt") {
                self.given.push((default, value.to_string()));
            }
            return Some(value);
        }
        default.parse().ok()
    }
}

/// A declaration and the statements that make and remove its tables.
pub fn statements(data: &[u8]) {
    let Some((&control, text)) = data.split_first_chunk::<3>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let mut lines = Lines { lines: text.split('\n'), given: Vec::new() };
    let Some(declared) = declaration(control, &mut lines) else { return };
    if declared.check_options().is_err() {
        return;
    }
    let Some(template) = template(control) else { return };
    let statements = rendered(&declared);
    assert_eq!(statements.len(), template.len(), "the number of statements");
    let times = intervals(&declared);
    for (sql, expected) in statements.iter().zip(template.iter()) {
        let tokens = Tokens::of(sql);
        assert!(tokens.is_some(), "a quote is open in {sql}");
        let tokens = tokens.unwrap_or_default();
        assert!(tokens.are_one_statement(), "more than one statement: {sql}");
        assert_eq!(tokens.outside, expected.outside, "names change what is outside quotes");
        assert_eq!(tokens.quoted.len(), expected.quoted.len());
        for (found, expected) in tokens.quoted.iter().zip(&expected.quoted) {
            let is_right = if expected.contains("dflt") {
                *found == filled(expected, &lines.given)
            } else {
                found == expected
            };
            assert!(is_right, "{found:?} stands for {expected:?} in {sql}");
        }
        assert!(tokens.intervals.iter().all(|each| times.contains(each)), "{sql}");
    }
}

/// A template's text with what was given for each default.
fn filled(template: &str, given: &[(&'static str, String)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        let behind = |(default, value)| Some((rest.strip_prefix(default)?, value));
        let found = given.iter().map(|(default, value)| (*default, value)).find_map(behind);
        rest = match found {
            Some((behind, value)) => {
                text.push_str(value);
                behind
            }
            None => {
                text.push(first);
                &rest[first.len_utf8()..]
            }
        };
    }
    text
}

/// Seconds of every time to live and move.
fn intervals(declared: &Declared) -> Vec<u64> {
    let options = [&declared.traces, &declared.logs, &declared.metrics];
    let times = options.into_iter().flatten().flat_map(|options| {
        let moved = options.storage.move_after.as_ref().map(|moved| moved.age);
        options.ttl.into_iter().chain(moved).map(Ttl::seconds)
    });
    times.collect()
}

fn rendered(declared: &Declared) -> Vec<String> {
    let made = render::create_all(declared);
    let dropped = render::drop_all(declared);
    made.iter().chain(&dropped).map(|statement| statement.sql().to_owned()).collect()
}

/// The statements of the same options with every name left at its default.
fn template(control: [u8; 3]) -> Option<Rc<Vec<Tokens>>> {
    thread_local! {
        static TEMPLATES: RefCell<HashMap<[u8; 3], Rc<Vec<Tokens>>>> = RefCell::default();
    }
    TEMPLATES.with_borrow_mut(|templates| {
        if let Some(known) = templates.get(&control) {
            return Some(Rc::clone(known));
        }
        let mut lines = Lines { lines: "".split('\n'), given: Vec::new() };
        let statements = rendered(&declaration(control, &mut lines)?);
        let tokens: Option<Vec<Tokens>> = statements.iter().map(|sql| Tokens::of(sql)).collect();
        let tokens = Rc::new(tokens?);
        if templates.len() >= TEMPLATES_MAX {
            templates.clear();
        }
        templates.insert(control, Rc::clone(&tokens));
        Some(tokens)
    })
}

fn presence(control: u8, bit: u8) -> Presence {
    if control >> bit & 1 == 0 { Presence::Included } else { Presence::Omitted }
}

/// A declaration of one signal's tables. `None` can't be: every default is good.
fn declaration([a, b, c]: [u8; 3], lines: &mut Lines<'_>) -> Option<Declared> {
    let database: Identifier = lines.next("dflt_database")?;
    let prefix: Identifier = lines.next("dflt_prefix")?;
    let cluster = lines.next("dflt_cluster")?;
    let distributed = lines.next("dflt_distributed")?;
    let options = options([a, b, c], lines)?;
    let signals = Signals { traces: a % 3 == 0, logs: a % 3 == 1, metrics: a % 3 == 2 };
    let mut declared = Declared::uniform(database, prefix, signals, &options);
    declared.cluster = (c & 1 == 1).then_some(cluster);
    declared.distributed = (c & 2 == 2).then_some(distributed);
    Some(declared)
}

fn options([a, b, c]: [u8; 3], lines: &mut Lines<'_>) -> Option<TableOptions> {
    let replication = Replication::Explicit {
        path: lines.next("/dflt_path")?,
        replica: lines.next("dflt_replica")?,
    };
    let engine = match a / 3 % 5 {
        0 => Engine::MergeTree,
        1 => Engine::ReplicatedMergeTree(replication),
        2 => Engine::ReplacingMergeTree,
        3 => Engine::ReplicatedReplacingMergeTree(replication),
        _ => Engine::Null,
    };
    let policy = lines.next("dflt_policy")?;
    let (volume, age) = (lines.next("dflt_volume")?, lines.next::<Ttl>("1h")?);
    let ttl = lines.next::<Ttl>("99d")?;
    let storage = Storage {
        policy: (c & 4 == 4).then_some(policy),
        move_after: (c & 8 == 8).then_some(Move { age, volume }),
    };
    let attributes = if a / 15 % 2 == 0 { AttributeStorage::Json } else { AttributeStorage::Map };
    let layout = layout(b, c >> 5, lines)?;
    Some(TableOptions {
        attributes,
        engine,
        ttl: (c & 16 == 16).then_some(ttl),
        storage,
        layout,
        window: millrace_ddl::DeduplicationWindow::default(),
    })
}

fn layout(b: u8, own: u8, lines: &mut Lines<'_>) -> Option<Layout> {
    let column = if own & 4 == 0 { AttributeColumn::Resource } else { AttributeColumn::Record };
    let ty = [ComputedType::Name, ComputedType::Text, ComputedType::Integer, ComputedType::Float]
        [usize::from(b) % 4];
    let mut materialized = Vec::new();
    let mut typed_paths = Vec::new();
    if own & 1 == 1 {
        for (name, path) in [("dflt_own_a", "dflt.path.a"), ("dflt_own_b", "dflt.path.b")] {
            let (name, path) = (lines.next(name)?, lines.next(path)?);
            materialized.push(Materialized { name, column, path, ty });
        }
    }
    if own & 2 == 2 {
        let path: AttributePath = lines.next("dflt.typed")?;
        typed_paths.push(TypedPath { column, path, is_repeating: b & 1 == 0 });
    }
    let readers = [Reader::Otel, Reader::Otel151, Reader::ClickStack];
    Some(Layout {
        reader: readers[usize::from(own >> 3) % 3],
        partition: [PartitionInterval::Day, PartitionInterval::Month][usize::from(b >> 1) % 2],
        compression: [None, Some(ColumnCompression::Zstd), Some(ColumnCompression::ZstdHigher)]
            [usize::from(b >> 4) % 3],
        body_index: [BodyIndex::Tokens, BodyIndex::Text, BodyIndex::None][usize::from(b >> 2) % 3],
        attribute_index: [AttributeIndex::None, AttributeIndex::Default, AttributeIndex::Text]
            [usize::from(b >> 5) % 3],
        trace_id_index: presence(b, 6),
        trace_lookup: presence(b, 7),
        rollup: presence(b, 0),
        typed_paths,
        materialized,
    })
}

/// What a server says of a table that is there already: engine, keys, types, names.
pub fn observed(data: &[u8]) {
    let Some((&[a, b, c, what], text)) = data.split_first_chunk::<4>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let mut defaults = Lines { lines: "".split('\n'), given: Vec::new() };
    let Some(mut declared) = declaration([a, b, c], &mut defaults) else { return };
    if declared.check_options().is_err() {
        return;
    }
    let Some(name) = declared.tables().first().map(|table| table.name.clone()) else { return };
    let mut lines = text.split('\n').map(str::to_owned);
    let live = live_table(&declared, what, &mut lines);
    let foreign: Vec<String> = live
        .columns
        .iter()
        .map(|column| column.name.clone())
        .chain(live.indexes.keys().cloned())
        .collect();
    if what & 1 == 1 {
        declared.consent = foreign.iter().map(|each| format!("{name}.{each}")).collect();
    }
    let tables = BTreeMap::from([(name.table().to_owned(), live)]);
    let observed = Observed { database: what & 2 == 2, replicates_itself: what & 8 == 8, tables };
    assert_ne!(
        detect_origin(&declared, &observed),
        TableOrigin::Nobody,
        "a table that nobody made"
    );
    let plan = plan_migration(&declared, &observed);
    for step in &plan.steps {
        let sql = step.statement.sql();
        let tokens = Tokens::of(sql);
        assert!(tokens.is_some(), "a quote is open in {sql}");
        let tokens = tokens.unwrap_or_default();
        assert!(tokens.are_one_statement(), "a server's words left their quotes: {sql}");
        if tokens.outside.contains(" DROP ") {
            assert!(step.loss != Loss::None || !tokens.outside.contains("COLUMN"), "{sql}");
            let dropped = tokens.quoted.last().cloned().unwrap_or_default();
            assert!(foreign.contains(&dropped), "{dropped:?} is not there: {sql}");
        }
        assert!(!step.object.is_empty() && !step.what.is_empty());
    }
    assert_eq!(plan.hash().len(), 12);
}

/// A table as declared, as far as the control byte says so, with a server's words in it.
fn live_table(
    declared: &Declared,
    what: u8,
    lines: &mut dyn Iterator<Item = String>,
) -> ObservedTable {
    let mut line = || lines.next().unwrap_or_default();
    let mut table = ObservedTable {
        engine_full: line(),
        partition_key: line(),
        sorting_key: line(),
        create_statement: line(),
        rows: 7,
        ..ObservedTable::default()
    };
    table.engine = match what & 4 {
        0 => table.engine_full.split([' ', '(']).next().unwrap_or_default().to_owned(),
        _ => "MergeTree".to_owned(),
    };
    let shapes = declared.tables();
    if let Some(shape) = shapes.first().filter(|_| what & 8 == 8) {
        // All but one column: whatever is missing has to be added.
        let skipped = usize::from(what >> 5);
        for (_, column) in shape.table.columns.iter().enumerate().filter(|(at, _)| *at != skipped) {
            table.columns.push(ObservedColumn {
                name: column.name.to_owned(),
                ty: shape.column_type(column),
                default_kind: String::new(),
                codec: String::new(),
            });
        }
    }
    let more = if what & 16 == 0 { 1 } else { 3 };
    for _ in 0..more {
        let (name, ty, default_kind, codec) = (line(), line(), line(), String::new());
        table.columns.push(ObservedColumn { name, ty, default_kind, codec });
    }
    table.indexes = lines.take(4).map(|name| (name, ObservedIndex::default())).collect();
    table
}

/// The kinds of tables there are; a new one needs a thought here.
const _: () = assert!(TableKind::ALL.len() == 8);
