//! Plots the times of a length sweep with the limit that its neighbours set.

use super::length_sweep::{Length, LengthSweep};
use super::plot::{LEFT, Scale, below, curve, grid, legend, text, ticks};

/// Draws the panel.
pub(super) fn panel(out: &mut String, top: f64, length_sweep: &LengthSweep) {
    text(out, "class=\"title\"", LEFT, top + 24.0, "Length sweep: prefill, milliseconds");
    let lengths = &length_sweep.lengths;
    let wall = |length: &Length| 1e3 * length.wall_seconds;
    let allowed = |length: &Length| 1e3 * length_sweep.allowed_seconds(length);
    let highest = lengths.iter().flat_map(|length| [wall(length), allowed(length)]).fold(0.0, f64::max);
    let Some(last) = lengths.last().filter(|_| highest > 0.0) else { return };
    let (step, steps) = ticks(highest);
    let scale = Scale { top, right: f64::from(last.tokens), high: step * f64::from(steps) };
    grid(out, &scale, (step, steps));
    below(out, &scale, "prompt length, tokens", lengths.iter().map(|length| length.tokens));
    let places = |value: &dyn Fn(&Length) -> f64| -> Vec<(f64, f64)> {
        lengths.iter().map(|length| (scale.x(length.tokens), scale.y(value(length)))).collect()
    };
    curve(out, "gpu", &places(&allowed));
    curve(out, "wall", &places(&wall));
    legend(out, top, [("wall", "wall time, median"), ("gpu", "limit")]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::length_sweep::tests::found;

    #[test]
    fn every_length_is_plotted_with_its_limit() {
        let mut out = String::new();
        panel(&mut out, 0.0, &found(40, |_| 0.0));
        // 40 tokens take 600 ms and may take 650: the axis ends at 800, and the curves at its right end.
        for label in ["Length sweep: prefill, milliseconds", "prompt length, tokens", "1", "800", "limit"] {
            assert!(out.contains(&format!(">{label}</text>")), "no {label} in {out}");
        }
        let scale = Scale { top: 0.0, right: 40.0, high: 800.0 };
        assert!(out.contains(&format!("L{:.1} {:.1}\"/>", scale.x(40), scale.y(600.0))), "{out}");
        let curves: Vec<&str> = out.split("d=\"M").skip(1).take(2).collect();
        assert!(curves.iter().all(|curve| curve.matches('L').count() >= 39), "{out}");
    }
}
