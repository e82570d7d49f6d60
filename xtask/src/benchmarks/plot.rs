//! Plots the tests of a run as SVG: prefill against the length of the prompt, decode against the depth.

use std::fmt::Write as _;

use serde_json::Value;

use super::{list, speed_of, text};

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 320.0;
/// The area of a panel's lines, in a half of the picture.
const LEFT: f64 = 62.0;
const TOP: f64 = 62.0;
const PANEL: f64 = 350.0;
const TALL: f64 = 196.0;

const STYLE: &str = "text{font:12.5px system-ui,sans-serif;fill:#334155}.t{font-weight:600}.paper{fill:#fff}.grid{stroke:#e2e8f0}\
                     .line{fill:none;stroke-width:2}.wall{stroke:#2563a8}.gpu{stroke:#c2571f;stroke-dasharray:5 4}.peer{stroke:#64748b}\
                     circle.wall{fill:#2563a8}circle.gpu{fill:#c2571f;stroke-dasharray:none}circle.peer{fill:#64748b}\
                     @media(prefers-color-scheme:dark){text{fill:#cbd5e1}.paper{fill:#0f172a}.grid{stroke:#334155}}";

/// A point of a line: its place on the x axis, tokens per second, and the range of the runs.
struct Point {
    at: f64,
    speed: f64,
    range: Option<[f64; 2]>,
}

/// A line with its name and its class in the style.
struct Line {
    name: String,
    class: &'static str,
    points: Vec<Point>,
}

/// The plot of a run.
pub(super) fn svg(json: &Value) -> String {
    let title = escape(&format!("{} on {}", text(&json["program"]["name"]), text(&json["adapter"]["name"])));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Speed of {title}\">\n\
         <style>{STYLE}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n"
    );
    let prefill = lines(json, "prefill", "tokens");
    let decode = lines(json, "decode", "depth");
    legend(&mut out, if prefill.len() > decode.len() { &prefill } else { &decode });
    panel(&mut out, 0.0, "Prefill, tokens per second", "tokens of the prompt", &prefill);
    panel(&mut out, WIDTH / 2.0, "Decode, tokens per second", "tokens in the KV cache", &decode);
    out + "</svg>\n"
}

/// The lines of a kind of test: wall time with its range, GPU time, and each peer.
fn lines(json: &Value, kind: &str, axis: &str) -> Vec<Line> {
    let tests: Vec<&Value> =
        list(&json["tests"]).iter().filter(|test| test["test"] == kind && test["wall"].is_object()).collect();
    let points = |speed: &dyn Fn(&Value) -> Option<f64>, with_range: bool| {
        let point = |test: &&Value| {
            let tokens = test["tokens"].as_f64()?;
            let at = test[axis].as_f64()?;
            let [slow, fast] = ["max", "min"].map(|field| test["wall"][field].as_f64().map(|seconds| tokens / seconds));
            let range = slow.zip(fast).map(|(slow, fast)| [slow, fast]).filter(|_| with_range);
            Some(Point { at, speed: speed(test)?, range })
        };
        tests.iter().filter_map(point).collect::<Vec<_>>()
    };
    let wall = points(&|test| test["tokens_per_second"].as_f64(), true);
    let gpu = points(&|test| test["gpu_tokens_per_second"].as_f64(), false);
    let mut lines = vec![
        Line { name: "wall time, slowest to fastest run".to_owned(), class: "wall", points: wall },
        Line { name: "GPU time".to_owned(), class: "gpu", points: gpu },
    ];
    for peer in list(&json["peers"]) {
        let name = text(&peer["name"]).to_owned();
        lines.push(Line { name, class: "peer", points: points(&|test| speed_of(peer, test), false) });
    }
    lines.retain(|line| !line.points.is_empty());
    lines
}

fn legend(out: &mut String, lines: &[Line]) {
    let mut x = LEFT;
    for Line { name, class, .. } in lines {
        let _ = writeln!(
            out,
            "<path class=\"line {class}\" d=\"M{x} 18h26\"/><text x=\"{}\" y=\"22\">{}</text>",
            x + 32.0,
            escape(name)
        );
        x += 52.0 + 6.4 * f64::from(u32::try_from(name.chars().count()).unwrap_or(0));
    }
}

/// Draws axes and lines in the half of the picture that begins at `from`.
fn panel(out: &mut String, from: f64, title: &str, axis: &str, lines: &[Line]) {
    let left = from + LEFT;
    let bottom = TOP + TALL;
    let _ = writeln!(out, "<text class=\"t\" x=\"{left}\" y=\"{}\">{title}</text>", TOP - 14.0);
    let middle = left + PANEL / 2.0;
    let _ = writeln!(out, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{axis}</text>", bottom + 44.0);
    let points = || lines.iter().flat_map(|line| &line.points);
    let most =
        points().flat_map(|point| [Some(point.speed), point.range.map(|range| range[1])]).flatten().fold(0.0, f64::max);
    let (step, top) = scale(most);
    let y = |speed: f64| bottom - TALL * speed / top;
    let mut speed = 0.0;
    while speed <= top {
        let at = y(speed);
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{left} {at:.1}h{PANEL}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            at + 4.0,
            short(speed)
        );
        speed += step;
    }
    // Lengths double: their logarithms are evenly spaced. Zero has a place of its own before one.
    let place = |at: f64| if at < 1.0 { -1.0 } else { at.log2() };
    let mut places: Vec<f64> = points().map(|point| point.at).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let (first, last) = (places.first().map_or(0.0, |at| place(*at)), places.last().map_or(1.0, |at| place(*at)));
    let x = |at: f64| left + 16.0 + (PANEL - 32.0) * if last > first { (place(at) - first) / (last - first) } else { 0.5 };
    let mut free = f64::MIN;
    for at in places {
        // A label that would overlap the one before is left out.
        if x(at) >= free {
            let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{at}</text>", x(at), bottom + 22.0);
            free = x(at) + 32.0;
        }
    }
    for Line { class, points, .. } in lines {
        let path: Vec<String> = points.iter().map(|point| format!("{:.1} {:.1}", x(point.at), y(point.speed))).collect();
        let _ = writeln!(out, "<path class=\"line {class}\" d=\"M{}\"/>", path.join("L"));
        for point in points {
            let (x, y_of) = (x(point.at), y(point.speed));
            if let Some([slow, fast]) = point.range {
                let _ = writeln!(out, "<path class=\"line {class}\" d=\"M{x:.1} {:.1}V{:.1}\"/>", y(slow), y(fast));
            }
            let _ = writeln!(out, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y_of:.1}\" r=\"3\"/>");
        }
    }
}

/// The step between two lines of the grid, a round number, and the topmost line.
fn scale(most: f64) -> (f64, f64) {
    let most = if most > 0.0 { most } else { 1.0 };
    let power = 10_f64.powf((most / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| most / step <= 5.0);
    let step = step.unwrap_or(most);
    (step, step * (most / step).ceil())
}

fn short(speed: f64) -> String {
    if speed >= 10_000.0 { format!("{}k", speed / 1000.0) } else { format!("{speed}") }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_round_and_reach_the_largest_speed() {
        assert_eq!(scale(95_032.0), (20_000.0, 100_000.0));
        assert_eq!(scale(5.0), (1.0, 5.0));
        assert_eq!(scale(0.0), (0.2, 1.0));
    }

    #[test]
    fn every_test_of_a_run_is_a_point_of_its_panel() {
        let test = |kind: &str, depth: u32, speed: f64| {
            serde_json::json!({ "test": kind, "tokens": 8, "depth": depth, "wall": { "min": 0.1, "max": 0.2 },
                "tokens_per_second": speed, "gpu_tokens_per_second": null })
        };
        let json = serde_json::json!({
            "program": { "name": "a<b" }, "adapter": { "name": "Wing" },
            "tests": [test("prefill", 0, 50.0), test("decode", 0, 60.0), test("decode", 1024, 40.0), { "test": "decode" }],
        });
        let svg = svg(&json);
        assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
        assert!(svg.contains("a&lt;b on Wing") && svg.contains(">1024<") && !svg.contains("GPU time"), "{svg}");
    }
}
