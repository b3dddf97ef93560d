//! A load's plots as SVG, for all kinds of servers side by side: bars of what they used in the
//! rounds, and lines of what they used second by second. Made from records alone.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::figures::{FIGURES, Spread, short, spreads};
use super::matrix::Cell;
use super::record::Records;

/// One colour for each kind of server; told apart by people who see colours differently too.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#999999"];
const WIDTH: f64 = 860.0;
const LEFT: f64 = 310.0;
const ROW: f64 = 18.0;
/// Three plots side by side.
const PLOT: f64 = 160.0;
/// The figures that have bars.
const DRAWN: [usize; 3] = [0, 3, 4];
/// Three panels side by side: their width and height, and the space before each.
const PANEL: (f64, f64) = (250.0, 160.0);
const BEFORE: f64 = 30.0;
const TOP: f64 = 60.0;
/// What the panels show.
const PANELS: [&str; 3] =
    ["memory of the largest, MiB", "CPU of all, cores", "outstanding requests of all"];

/// Two samples that are closer can't say how fast: a round's last one comes when its load has ended.
const APART_SECONDS: f64 = 0.3;

/// A second of a round, and a panel's value.
type Spot = (f64, f64);
/// A round's line in each panel.
type Lines = [Vec<Spot>; PANELS.len()];

fn begin(load: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{WIDTH}\" \
         height=\"{height}\" fill=\"#ffffff\"/>\n<text x=\"10\" y=\"20\" font-size=\"13\">{load}\
         </text>\n"
    )
}

fn colour(nth: usize) -> &'static str {
    COLOURS[nth % COLOURS.len()]
}

/// Bars: medians, with a line from the least to the most.
pub(crate) fn bars(load: &str, cells: &[&Cell], records: &Records) -> String {
    let mut out = begin(load, 70.0 + ROW * cells.len() as f64);
    let rows: Vec<Vec<Option<Spread>>> =
        cells.iter().map(|cell| spreads(cell, records).1).collect();
    for (column, figure) in DRAWN.into_iter().enumerate() {
        let x = LEFT + column as f64 * (PLOT + 20.0);
        let most = rows.iter().filter_map(|row| row[figure]).map(|spread| spread.most);
        let most = most.fold(f64::MIN_POSITIVE, f64::max);
        let scale = |value: f64| value / most * PLOT;
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"45\">{} (0 to {})</text>",
            FIGURES[figure].0,
            short(most)
        );
        for (nth, row) in rows.iter().enumerate() {
            let Some(Spread { least, median, most }) = row[figure] else { continue };
            let y = 55.0 + ROW * nth as f64;
            let (a, b) = (x + scale(least), x + scale(most));
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{:.1}\" height=\"12\" fill=\"{}\"/><line \
                 x1=\"{a:.1}\" x2=\"{b:.1}\" y1=\"{2}\" y2=\"{2}\" stroke=\"#000000\"/>",
                scale(median),
                colour(nth),
                y + 6.0
            );
        }
    }
    for (nth, cell) in cells.iter().enumerate() {
        let y = 65.0 + ROW * nth as f64;
        let _ = writeln!(out, "<text x=\"10\" y=\"{y}\">{}</text>", cell.server.name());
    }
    out.push_str("</svg>\n");
    out
}

/// Lines over time: a thin one for each round, a thick one for the median of those that still ran,
/// as long as half of them did.
pub(crate) fn over_time(load: &str, cells: &[&Cell], records: &Records) -> String {
    let of = |cell: &&Cell| {
        records.of(&cell.name()).map(|result| lines(&records.samples_of(result))).collect()
    };
    let rounds: Vec<Vec<Lines>> = cells.iter().map(of).collect();
    let all = rounds.iter().flatten().flatten().flatten();
    let last = all.map(|spot| spot.0).fold(1.0, f64::max);
    let bottom = TOP + PANEL.1;
    let mut out = begin(load, bottom + 40.0 + ROW * cells.len() as f64);
    for (nth, title) in PANELS.iter().enumerate() {
        panel(&mut out, title, last, nth, &rounds);
    }
    for (nth, cell) in cells.iter().enumerate() {
        let y = bottom + 35.0 + ROW * nth as f64;
        let _ = writeln!(
            out,
            "<rect x=\"{BEFORE}\" y=\"{}\" width=\"24\" height=\"4\" fill=\"{}\"/><text x=\"{}\" \
             y=\"{y}\">{}</text>",
            y - 6.0,
            colour(nth),
            BEFORE + 32.0,
            cell.server.name()
        );
    }
    out.push_str("</svg>\n");
    out
}

/// One panel: its frame, and each cell's lines from second 0 to the last.
fn panel(out: &mut String, title: &str, last: f64, nth: usize, rounds: &[Vec<Lines>]) {
    let left = BEFORE + nth as f64 * (PANEL.0 + BEFORE);
    let (right, bottom) = (left + PANEL.0, TOP + PANEL.1);
    let (above, below) = (TOP - 12.0, bottom + 14.0);
    let spots = rounds.iter().flatten().flat_map(|lines| &lines[nth]);
    let most = spots.map(|spot| spot.1).fold(f64::MIN_POSITIVE, f64::max);
    let _ = writeln!(
        out,
        "<text x=\"{left}\" y=\"{above}\">{title} (0 to {})</text><path \
         d=\"M{left} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#000000\"/><text x=\"{left}\" \
         y=\"{below}\">0</text><text x=\"{right}\" y=\"{below}\" text-anchor=\"end\">{last:.0} \
         s</text>",
        short(most)
    );
    let at = |&(second, value): &Spot| {
        format!("{:.1},{:.1}", left + second / last * PANEL.0, bottom - value / most * PANEL.1)
    };
    for (cell, rounds) in rounds.iter().enumerate() {
        let thin = rounds.iter().map(|lines| (&lines[nth], "0.8\" opacity=\"0.35"));
        let middle = middle(rounds.iter().map(|lines| &lines[nth]));
        for (spots, width) in thin.chain([(&middle, "2.2")]) {
            let points = spots.iter().map(at).collect::<Vec<_>>().join(" ");
            let _ = writeln!(
                out,
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{}\" \
                 stroke-width=\"{width}\"/>",
                colour(cell)
            );
        }
    }
}

/// A round's line in each panel. The servers' nth samples are taken for one moment.
fn lines(samples: &[&Value]) -> Lines {
    let mut moments: Vec<Vec<&Value>> = Vec::new();
    let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
    for sample in samples {
        let nth = seen.entry(sample["server"].as_u64().unwrap_or_default()).or_default();
        match moments.get_mut(*nth) {
            Some(moment) => moment.push(sample),
            None => moments.push(vec![sample]),
        }
        *nth += 1;
    }
    let second = |moment: &[&Value]| moment.first().and_then(|sample| sample["second"].as_f64());
    let memory = |moment: &[&Value]| {
        let bytes = moment.iter().filter_map(|sample| sample["memory_bytes"].as_f64());
        bytes.reduce(f64::max).map(|bytes| bytes / 1_048_576.0)
    };
    let outstanding = |moment: &[&Value]| {
        let said = moment.iter().filter_map(|sample| {
            sample["mntr"]["zk_outstanding_requests"].as_str()?.parse::<f64>().ok()
        });
        said.reduce(|sum, one| sum + one)
    };
    let cpu = |moment: &[&Value]| {
        let said = moment.iter().map(|sample| sample["cpu_seconds"].as_f64());
        said.sum::<Option<f64>>()
    };
    let of = |value: &dyn Fn(&[&Value]) -> Option<f64>| -> Vec<Spot> {
        moments.iter().filter_map(|moment| Some((second(moment)?, value(moment)?))).collect()
    };
    let used = of(&cpu);
    let cores = used.windows(2).filter_map(|pair| {
        let ((from, before), (to, after)) = (pair[0], pair[1]);
        let speed = (after - before).max(0.0) / (to - from);
        (to - from >= APART_SECONDS).then_some((to, speed))
    });
    [of(&memory), cores.collect(), of(&outstanding)]
}

/// The median of some rounds, second by second, where half of them have a value.
fn middle<'a>(rounds: impl Iterator<Item = &'a Vec<Spot>>) -> Vec<Spot> {
    let (mut by_second, mut count) = (BTreeMap::<u64, Vec<f64>>::new(), 0);
    for round in rounds {
        count += 1;
        // A round has a few thousand seconds, none before its beginning, and one value for each.
        let values = round.iter().map(|(second, value)| (second.round() as u64, *value));
        for (second, value) in values.collect::<BTreeMap<_, _>>() {
            by_second.entry(second).or_default().push(value);
        }
    }
    let enough = by_second.into_iter().filter(|(_, values)| values.len() * 2 >= count);
    let spot = |(second, values)| Some((second as f64, Spread::of(values)?.median));
    enough.filter_map(spot).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Scenario: two servers sampled three times, one silent once. Guarantee: memory is the larger
    /// one's, CPU the increase of both by the second, outstanding requests the sum of those that
    /// answered.
    #[test]
    fn a_rounds_lines_join_its_servers() {
        let sample = |server: u32, second: f64, cpu: f64, mib: u64, outstanding: Option<&str>| {
            json!({
                "server": server, "second": second, "cpu_seconds": cpu,
                "memory_bytes": mib << 20,
                "mntr": outstanding.map_or(json!({}), |it| json!({"zk_outstanding_requests": it})),
            })
        };
        let samples = [
            sample(0, 0.0, 1.0, 50, Some("1")),
            sample(1, 0.1, 2.0, 60, Some("2")),
            sample(0, 1.0, 1.5, 70, Some("5")),
            sample(1, 1.1, 2.25, 60, None),
            sample(0, 3.0, 2.5, 70, Some("0")),
            sample(1, 3.1, 3.25, 80, Some("0")),
        ];
        let [memory, cores, outstanding] = lines(&samples.iter().collect::<Vec<_>>());
        assert_eq!(memory, [(0.0, 60.0), (1.0, 70.0), (3.0, 80.0)]);
        assert_eq!(cores, [(1.0, 0.75), (3.0, 1.0)]);
        assert_eq!(outstanding, [(0.0, 3.0), (1.0, 5.0), (3.0, 0.0)]);
    }

    /// Scenario: three rounds, one of them longer, with two samples in its last second. Guarantee:
    /// the middle one's value each second, and none where only one still ran.
    #[test]
    fn the_thick_line_ends_when_most_rounds_have() {
        let rounds = [
            vec![(0.0, 1.0), (1.1, 4.0)],
            vec![(0.2, 3.0), (0.9, 6.0)],
            vec![(0.0, 2.0), (1.0, 5.0), (2.0, 9.0), (2.1, 8.0)],
        ];
        assert_eq!(middle(rounds.iter()), [(0.0, 2.0), (1.0, 5.0)]);
    }
}
