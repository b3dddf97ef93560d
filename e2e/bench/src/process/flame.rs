//! Draws folded stacks as a flame graph: one SVG file that any browser shows, no script in it.
//!
//! Pure. Width is share of samples, depth is the call path, colour only tells neighbours apart;
//! pointing at a frame shows its whole name and share. Frames under [`SMALLEST_SHARE`] are left
//! out, so that the file stays small.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The drawing's width, in pixels.
const WIDTH: f64 = 1200.0;
/// One frame's height, in pixels.
const ROW: f64 = 16.0;
/// Room for the headline.
const TOP: f64 = 28.0;
/// What one letter takes, in pixels, at 11 px in a monospaced face.
const LETTER: f64 = 6.7;
/// Frames with less than 0.15 % of the samples are too narrow to be seen: 1.8 pixels.
const SMALLEST_SHARE: f64 = 0.0015;

#[derive(Default)]
struct Frame {
    samples: u64,
    callees: BTreeMap<String, Frame>,
}

/// The SVG of these stacks.
pub(crate) fn draw(stacks: &BTreeMap<Vec<String>, u64>) -> String {
    let mut root = Frame::default();
    for (stack, count) in stacks {
        root.samples += count;
        let mut frame = &mut root;
        for name in stack {
            frame = frame.callees.entry(name.clone()).or_default();
            frame.samples += count;
        }
    }
    let mut boxes = String::new();
    let mut depth = 0;
    let total = root.samples.max(1) as f64;
    paint(&root, 0, 0.0, total, &mut boxes, &mut depth);
    let height = TOP + f64::from(depth) * ROW + 8.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">\n\
         <style>rect{{stroke:#fff;stroke-width:.5}}text{{font:11px monospace;pointer-events:none}}\
         </style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fffdf7\"/>\n\
         <text x=\"6\" y=\"18\">{} samples; width is share of CPU time, callers above callees\
         </text>\n{boxes}</svg>\n",
        root.samples
    )
}

fn paint(frame: &Frame, row: u32, left: f64, total: f64, out: &mut String, depth: &mut u32) {
    let mut x = left;
    for (name, callee) in &frame.callees {
        let share = callee.samples as f64 / total;
        let width = share * WIDTH;
        if share >= SMALLEST_SHARE {
            *depth = (*depth).max(row + 1);
            let y = TOP + f64::from(row) * ROW;
            let percent = share * 100.0;
            // Writing to a string can't fail.
            let _ = write!(
                out,
                "<g><title>{} ({percent:.1} %)</title><rect x=\"{x:.1}\" y=\"{y:.0}\" \
                 width=\"{width:.1}\" height=\"{ROW}\" fill=\"{}\"/>",
                escaped(name),
                colour(name)
            );
            let room = ((width - 4.0) / LETTER) as usize;
            if room >= 3 {
                let _ = write!(
                    out,
                    "<text x=\"{:.1}\" y=\"{:.0}\">{}</text>",
                    x + 2.0,
                    y + 12.0,
                    escaped(&shortened(name, room))
                );
            }
            out.push_str("</g>\n");
            paint(callee, row + 1, x, total, out, depth);
        }
        x += width;
    }
}

/// The end of a path says more than its beginning.
fn shortened(name: &str, room: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= room {
        return name.to_owned();
    }
    let tail = &letters[letters.len() - (room - 1)..];
    format!("…{}", tail.iter().collect::<String>())
}

/// A warm colour that depends on the name alone.
fn colour(name: &str) -> String {
    let hash = name
        .bytes()
        .fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    let (red, green, blue) = (225 + hash % 30, 120 + (hash >> 8) % 100, 70 + (hash >> 16) % 50);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::draw;

    /// Scenario: two stacks of 3 and 1 samples, and one too rare to be seen. Guarantee: shares are
    /// right, names are escaped, the rare one is left out.
    #[test]
    fn shares_are_drawn_and_slivers_left_out() {
        let stack = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let stacks: BTreeMap<Vec<String>, u64> = BTreeMap::from([
            (stack(&["main", "Vec<T>::push"]), 3000),
            (stack(&["main", "drop"]), 1000),
            (stack(&["main", "rare"]), 1),
        ]);
        let svg = draw(&stacks);
        assert!(svg.contains("<title>Vec&lt;T&gt;::push (75.0 %)</title>"), "{svg}");
        assert!(svg.contains("drop (25.0 %)") && !svg.contains("rare"));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }
}
