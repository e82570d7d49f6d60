//! Plots the speeds as SVG, with colours for light and dark mode.

use std::fmt::Write;

use super::cases::Case;
use super::plot_length_sweep;
use super::report::Report;
use super::stats::Summary;

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 300.0;
pub(super) const LEFT: f64 = 70.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 56.0;
/// Height of the title above the panels.
const HEAD: f64 = 60.0;
/// Width of a number below the axis.
const LABEL: f64 = 44.0;

const STYLE: &str = "
  text { font: 13px system-ui, sans-serif; fill: #333 } .title { font-weight: 600 } .paper { fill: #fff }
  .grid { stroke: #ddd } path { fill: none; stroke-width: 1.8 }
  .wall { stroke: #2a6fb0 } .gpu { stroke: #d1622b } path.gpu { stroke-dasharray: 5 4 }
  circle.wall { fill: #2a6fb0 } circle.gpu { fill: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #ccc } .paper { fill: #111 } .grid { stroke: #333 }
    .wall { stroke: #6db3f2 } .gpu { stroke: #f2965c } circle.wall { fill: #6db3f2 }
  }
";

/// A measured speed: its position on the x axis, tokens per second by wall time with the slowest and the fastest, and by GPU time.
#[derive(Clone, Copy)]
struct Point {
    at: u32,
    wall: Speeds,
    gpu: Option<f64>,
}

#[derive(Clone, Copy)]
struct Speeds {
    slowest: f64,
    median: f64,
    fastest: f64,
}

/// Plots prefill against the prompt length and decode against the depth, and the length sweep where there is one.
pub(super) fn svg(report: &Report) -> String {
    let (adapter, program) = (&report.adapter, &report.program);
    let head = escape(&format!("{} on {}", program.name, adapter.name));
    let below = escape(&format!("{}, {}, {}", adapter.driver, adapter.backend, report.date));
    let is_prefill = |case: Case| matches!(case, Case::Prefill { .. });
    let prefill = points(report, is_prefill, |case| case.tokens());
    let decode = points(report, |case| !is_prefill(case), |case| case.depth());
    // A sweep alone has no panels of speeds.
    let speeds = !report.tests.is_empty() || report.length_sweep.is_none();
    let panels = if speeds { 2.0 } else { 0.0 } + if report.length_sweep.is_some() { 1.0 } else { 0.0 };
    let bottom = HEAD + panels * HEIGHT;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {bottom}\" role=\"img\" aria-label=\"Speed of {head}\">\
         <style>{STYLE}</style><rect class=\"paper\" width=\"100%\" height=\"100%\"/>\
         <text class=\"title\" x=\"{LEFT}\" y=\"26\">{head}</text><text x=\"{LEFT}\" y=\"46\">{below}</text>"
    );
    if speeds {
        panel(&mut out, HEAD, ["Prefill, tokens per second", "prompt length, tokens"], &prefill);
        panel(&mut out, HEAD + HEIGHT, ["Decode, tokens per second", "tokens in the KV cache"], &decode);
    }
    if let Some(length_sweep) = &report.length_sweep {
        plot_length_sweep::panel(&mut out, bottom - HEIGHT, length_sweep);
    }
    out.push_str("</svg>\n");
    out
}

fn points(report: &Report, wanted: impl Fn(Case) -> bool, at: impl Fn(Case) -> u32) -> Vec<Point> {
    let tests = report.tests.iter().filter(|test| wanted(test.case));
    let point = |test| {
        let figures = report.figures(test)?;
        let speed = |seconds: f64| f64::from(test.case.tokens()) / seconds;
        let Summary { median, min, max, .. } = figures.wall;
        let wall = Speeds { slowest: speed(max), median: speed(median), fastest: speed(min) };
        Some(Point { at: at(test.case), wall, gpu: figures.gpu_tokens_per_second })
    };
    let mut points: Vec<Point> = tests.filter_map(point).collect();
    points.sort_by_key(|point| point.at);
    points
}

/// The scales of a panel.
pub(super) struct Scale {
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) high: f64,
}

impl Scale {
    pub(super) fn x(&self, at: u32) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * f64::from(at) / self.right
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.top + HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.high
    }
}

fn panel(out: &mut String, top: f64, [title, axis]: [&str; 2], points: &[Point]) {
    text(out, "class=\"title\"", LEFT, top + 24.0, title);
    let highest = points.iter().flat_map(|point| [point.wall.fastest, point.gpu.unwrap_or(0.0)]).fold(0.0, f64::max);
    if highest <= 0.0 {
        text(out, "", LEFT, top + TOP + 20.0, "nothing was measured");
        return;
    }
    let (step, steps) = ticks(highest);
    let right = f64::from(points.last().map_or(1, |point| point.at).max(1));
    let scale = Scale { top, right, high: step * f64::from(steps) };
    grid(out, &scale, (step, steps));
    below(out, &scale, axis, points.iter().map(|point| point.at));
    curves(out, &scale, points);
    if points.iter().any(|point| point.gpu.is_some()) {
        legend(out, top, [("wall", "wall time, median, min … max"), ("gpu", "GPU time, median")]);
    }
}

/// Draws horizontal grid lines with their values.
pub(super) fn grid(out: &mut String, scale: &Scale, (step, steps): (f64, u32)) {
    for tick in 0..=steps {
        let value = step * f64::from(tick);
        let y = scale.y(value);
        let _ = write!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>", WIDTH - RIGHT);
        text(out, "text-anchor=\"end\"", LEFT - 8.0, y + 4.0, &number(value));
    }
}

/// Draws the labels of the x axis: numbers in order, and its title.
pub(super) fn below(out: &mut String, scale: &Scale, axis: &str, numbers: impl Iterator<Item = u32>) {
    let base = scale.top + HEIGHT - BOTTOM;
    let mut free_from = 0.0;
    for at in numbers {
        let x = scale.x(at);
        // A number that would overlap the last one is left out; its mark stays.
        if x >= free_from {
            text(out, "text-anchor=\"middle\"", x, base + 18.0, &at.to_string());
            free_from = x + LABEL;
        }
    }
    text(out, "text-anchor=\"middle\"", f64::midpoint(LEFT, WIDTH - RIGHT), base + 40.0, axis);
}

fn curves(out: &mut String, scale: &Scale, points: &[Point]) {
    let wall: Vec<_> = points.iter().map(|point| (scale.x(point.at), scale.y(point.wall.median))).collect();
    let gpu: Vec<_> = points.iter().filter_map(|point| Some((scale.x(point.at), scale.y(point.gpu?)))).collect();
    curve(out, "gpu", &gpu);
    curve(out, "wall", &wall);
    for point in points {
        let x = scale.x(point.at);
        let [slowest, fastest] = [point.wall.slowest, point.wall.fastest].map(|speed| scale.y(speed));
        let _ = write!(out, "<path class=\"wall\" d=\"M{x:.1} {slowest:.1} V{fastest:.1}\"/>");
    }
    for (class, places) in [("gpu", gpu), ("wall", wall)] {
        for (x, y) in places {
            let _ = write!(out, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
        }
    }
}

/// Draws a line through points.
pub(super) fn curve(out: &mut String, class: &str, places: &[(f64, f64)]) {
    let command = |index: usize| if index == 0 { 'M' } else { 'L' };
    let path = places.iter().enumerate().map(|(index, (x, y))| format!("{}{x:.1} {y:.1}", command(index)));
    let _ = write!(out, "<path class=\"{class}\" d=\"{}\"/>", path.collect::<Vec<_>>().join(" "));
}

/// Draws the legend.
pub(super) fn legend(out: &mut String, top: f64, names: [(&str, &str); 2]) {
    for (index, (class, name)) in names.into_iter().enumerate() {
        let x = WIDTH - RIGHT - 480.0 + if index == 0 { 0.0 } else { 250.0 };
        let _ = write!(out, "<path class=\"{class}\" d=\"M{x} {} h22\"/>", top + 20.0);
        text(out, "", x + 28.0, top + 24.0, name);
    }
}

pub(super) fn text(out: &mut String, attributes: &str, x: f64, y: f64, text: &str) {
    let _ = write!(out, "<text {attributes} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
}

/// Returns a round step, and how many of them reach the highest value: three to six.
pub(super) fn ticks(highest: f64) -> (f64, u32) {
    let mut size = 10f64.powi(-9);
    loop {
        for factor in [1.0, 2.0, 5.0] {
            let step = size * factor;
            if let Some(steps) = (1..=6).find(|&steps| step * f64::from(steps) >= highest) {
                return (step, steps);
            }
        }
        size *= 10.0;
    }
}

/// A number without a tail of zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes names from files and drivers for XML.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            character if character.is_control() => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::report::Outcome;
    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn names_are_escaped() {
        let picture = svg(&sample());
        assert!(picture.contains("bird &amp; co.pte on Wing &lt;3000&gt;</text>"), "{picture}");
        assert_eq!(escape("a\"b\u{1b}"), "a&quot;b\u{fffd}");
        // Every element that is opened is closed.
        let count = |part: &str| picture.matches(part).count();
        for element in ["svg", "style", "text"] {
            assert_eq!(
                count(&format!("<{element} ")) + count(&format!("<{element}>")),
                count(&format!("</{element}>")),
                "{element}"
            );
        }
        assert!(picture.ends_with("</svg>\n") && picture.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn axes_are_labelled_and_begin_at_zero() {
        let picture = svg(&sample());
        for label in
            ["Prefill, tokens per second", "prompt length, tokens", "Decode, tokens per second", "tokens in the KV cache"]
        {
            assert!(picture.contains(&format!(">{label}</text>")), "{label}");
        }
        // The one prompt that was measured has 100 tokens, at up to 250 a second: the axis ends there.
        for tick in ["0", "50", "250", "100", "495"] {
            assert!(picture.contains(&format!(">{tick}</text>")), "no {tick} in\n{picture}");
        }
        let scale = Scale { top: HEAD, right: 100.0, high: 250.0 };
        assert!(
            picture.contains(&format!("<circle class=\"wall\" cx=\"{:.1}\" cy=\"{:.1}\"", scale.x(100), scale.y(200.0))),
            "{picture}"
        );
        assert!(!picture.contains(">2048<"), "what was skipped has no place");
    }

    #[test]
    fn an_empty_plot_says_so() {
        let mut report = sample();
        for test in &mut report.tests {
            test.outcome = Outcome::Skipped { skipped: "too long".to_owned() };
        }
        assert_eq!(svg(&report).matches("nothing was measured").count(), 2);
        report.tests.clear();
        report.length_sweep = Some(crate::bench::length_sweep::tests::found(40, |_| 0.0));
        let picture = svg(&report);
        assert!(!picture.contains("nothing was measured") && picture.contains("milliseconds"), "{picture}");
        assert!(picture.contains(&format!("viewBox=\"0 0 {WIDTH} {}\"", HEAD + HEIGHT)), "{picture}");
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (highest, expected) in
            [(1.0, (0.2, 5)), (6.0, (1.0, 6)), (6.1, (2.0, 4)), (333.3, (100.0, 4)), (28_000.0, (5_000.0, 6))]
        {
            let (step, steps) = ticks(highest);
            assert!((step / expected.0 - 1.0).abs() < 1e-6 && steps == expected.1, "{highest}: {step} × {steps}");
        }
        assert_eq!([number(0.25), number(400.0), number(0.0)], ["0.25", "400", "0"]);
    }
}
