//! Holds the rows of log files against what was written: each line at least once, unaltered, in
//! order, and again only where a strike allows it. Pure.

use super::line;

/// How many examples of one fault are named.
const EXAMPLES: usize = 3;

/// A row of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The line's number.
    pub number: u64,
    /// When it was read, or for a container's when it was written, in nanoseconds.
    pub time: u64,
    /// The text's length in bytes.
    pub bytes: u64,
    /// And its checksum.
    pub crc: u32,
}

/// What was written to a file, under all of its names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Lines: numbers from 0 on.
    pub lines: u64,
    /// With which lines the file began, each time that it was made or truncated.
    pub begins: Vec<u64>,
    /// Lines before this number are in files that were deleted, stored as they were.
    pub deleted: u64,
    /// Whether rows have the time of reading, so that they show in which order that was.
    pub is_timed: bool,
}

/// Lines of one file that may come once more because of one strike: from the first that wasn't
/// known to be on record, to the last that was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Which file.
    pub file: usize,
    /// From this number on.
    pub from: u64,
    /// Up to and without this one.
    pub to: u64,
}

/// What a round's files came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    /// Lines written.
    pub lines: u64,
    /// Of these, not in the table.
    pub missing: u64,
    /// Rows whose text isn't the line's.
    pub altered: u64,
    /// Rows of lines that were never written.
    pub invented: u64,
    /// Rows beyond the first of each line.
    pub repeated: u64,
    /// Of these, ones that no strike explains.
    pub unexplained: u64,
    /// How many the strikes would explain.
    pub bound: u64,
    /// Lines whose last reading was before that of the line before them in the same file, unless
    /// the file was deleted while it was read again.
    pub unordered: u64,
    /// Some of what is wrong.
    pub examples: Vec<String>,
}

impl Judged {
    /// Adds the rows of one file, in any order.
    pub fn add(
        &mut self,
        round: u64,
        file: usize,
        written: &Written,
        rows: &[Row],
        windows: &[Window],
    ) {
        let mut rows = rows.to_vec();
        rows.sort_unstable_by_key(|row| (row.number, row.time));
        let known = rows.partition_point(|row| row.number < written.lines);
        let (rows, invented) = rows.split_at(known);
        self.note("invented", file, invented.iter().map(|row| row.number), |sum| &mut sum.invented);
        self.lines += written.lines;
        let windows: Vec<_> = windows.iter().filter(|window| window.file == file).collect();
        self.bound += windows.iter().map(|window| window.to - window.from).sum::<u64>();
        let (mut rest, mut last) = (rows, None);
        for number in 0..written.lines {
            let copies;
            (copies, rest) = rest.split_at(rest.partition_point(|row| row.number == number));
            let Some(newest) = copies.last() else {
                self.note("missing", file, [number], |sum| &mut sum.missing);
                continue;
            };
            self.compare(round, file, number, copies);
            let again = copies.len() as u64 - 1;
            self.repeated += again;
            let holds = |window: &&&Window| (window.from..window.to).contains(&number);
            let allowed = windows.iter().filter(holds).count() as u64;
            if again > allowed {
                self.note("repeated", file, [number], |sum| &mut sum.unexplained);
                self.unexplained += again - allowed - 1;
            }
            if written.begins.binary_search(&number).is_ok() {
                last = None;
            }
            if written.is_timed
                && let Some((time, readings)) = last
                && newest.time < time
            {
                // Read again up to the line before, killed, and nothing to read from after that.
                let is_gone = number < written.deleted && copies.len() < readings;
                let disorder = (!is_gone).then_some(number);
                self.note("out of order", file, disorder, |sum| &mut sum.unordered);
            }
            last = Some((newest.time, copies.len()));
        }
    }

    fn compare(&mut self, round: u64, file: usize, number: u64, copies: &[Row]) {
        let text = line::text(round, file, number);
        let (bytes, crc) = (text.len() as u64, line::crc32(text.as_bytes()));
        let wrong = copies.iter().filter(|row| (row.bytes, row.crc) != (bytes, crc));
        self.note("altered", file, wrong.map(|row| row.number), |sum| &mut sum.altered);
    }

    fn note(
        &mut self,
        what: &str,
        file: usize,
        numbers: impl IntoIterator<Item = u64>,
        of: impl Fn(&mut Self) -> &mut u64,
    ) {
        for number in numbers {
            *of(self) += 1;
            if self.examples.iter().filter(|one| one.starts_with(what)).count() < EXAMPLES {
                self.examples.push(format!("{what}: line {number} of file {file}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: u64 = 9;

    fn row(number: u64, time: u64) -> Row {
        let text = line::text(ROUND, 1, number);
        Row { number, time, bytes: text.len() as u64, crc: line::crc32(text.as_bytes()) }
    }

    fn judged(rows: &[Row], windows: &[Window]) -> Judged {
        judged_after(0, rows, windows)
    }

    /// The same where the files of so many lines were deleted.
    fn judged_after(deleted: u64, rows: &[Row], windows: &[Window]) -> Judged {
        let written = Written { lines: 4, begins: vec![0, 2], deleted, is_timed: true };
        let mut judged = Judged::default();
        judged.add(ROUND, 1, &written, rows, windows);
        judged
    }

    /// Scenario: four lines of a file that was rotated once, all there; one not there; one with
    /// another text; one that was never written. Guarantee: each fault is counted as what it is,
    /// and named.
    #[test]
    fn what_is_wrong_with_rows_is_told_apart() {
        let all = [row(2, 4), row(0, 5), row(3, 4), row(1, 5)];
        let clean = Judged { lines: 4, ..Judged::default() };
        assert_eq!(judged(&all, &[]), clean, "side by side with its successor is no disorder");
        let missing = judged(&all[1..], &[]);
        assert_eq!((missing.missing, &*missing.examples[0]), (1, "missing: line 2 of file 1"));
        let altered = judged(&[row(0, 5), row(1, 5), row(2, 4), Row { crc: 1, ..row(3, 4) }], &[]);
        assert_eq!((altered.missing, altered.altered), (0, 1));
        let invented = judged(&[all.as_slice(), &[row(4, 6)]].concat(), &[]);
        assert_eq!(invented.invented, 1);
    }

    /// Scenario: a line twice, within a strike's window, within another file's, and thrice.
    /// Guarantee: one copy more for each window that holds the line.
    #[test]
    fn a_line_comes_again_only_where_a_strike_allows_it() {
        let twice = [row(0, 1), row(1, 1), row(1, 3), row(2, 3), row(3, 3)];
        let window = |file, from, to| Window { file, from, to };
        let of = |rows: &[Row], windows: &[Window]| {
            let judged = judged(rows, windows);
            (judged.repeated, judged.unexplained, judged.bound)
        };
        assert_eq!(of(&twice, &[]), (1, 1, 0));
        assert_eq!(of(&twice, &[window(1, 1, 4)]), (1, 0, 3));
        assert_eq!(of(&twice, &[window(2, 1, 4), window(1, 2, 4)]), (1, 1, 2));
        let thrice = [twice.as_slice(), &[row(1, 4)]].concat();
        assert_eq!(of(&thrice, &[]), (2, 2, 0));
        assert_eq!(of(&thrice, &[window(1, 0, 2), window(1, 1, 3)]), (2, 0, 4));
    }

    /// Scenario: the second line was read last before the first was; both were read again in order.
    /// Guarantee: only the first is disorder.
    #[test]
    fn the_last_readings_of_a_files_lines_are_in_order() {
        let rest = [row(2, 9), row(3, 9)];
        let disorder = judged(&[&[row(0, 5), row(1, 4)], rest.as_slice()].concat(), &[]);
        assert_eq!(disorder.unordered, 1);
        let window = [Window { file: 1, from: 0, to: 2 }];
        let again = [row(0, 2), row(1, 3), row(0, 5), row(1, 6)];
        assert_eq!(judged(&[again.as_slice(), &rest].concat(), &window).unordered, 0);
    }

    /// Scenario: the first line of a file is read again, and its reader killed before the second is.
    /// Guarantee: that is disorder if the file is still there, and none if it was deleted; lines
    /// read equally often are in order whatever was deleted.
    #[test]
    fn a_file_deleted_while_it_is_read_again_is_no_disorder() {
        let rows = [row(0, 2), row(1, 3), row(0, 5), row(2, 9), row(3, 9)];
        let window = [Window { file: 1, from: 0, to: 1 }];
        let unordered = |deleted, rows: &[Row]| judged_after(deleted, rows, &window).unordered;
        assert_eq!((unordered(0, &rows), unordered(2, &rows)), (1, 0));
        assert_eq!(unordered(2, &[&[row(0, 5), row(1, 4)], &rows[3..]].concat()), 1);
    }
}
