//! Bilinear interpolation with antialiasing, one axis after the other.
//!
//! A new pixel is the mean of the old ones around its centre, weighted by a triangle that reaches one pixel to each side, or one new
//! pixel where the picture shrinks. Weights are rounded to 22 bits and results to 8, as Pillow does, so that both agree in every bit.

use pteron_format::alloc;

use super::error::MediaError;
use super::image::bytes_of;

/// Fractional bits of a weight: products with a pixel and their sums stay within 32.
const FRACTION: u32 = 22;

/// The old pixels that make a new one.
struct Window {
    first: usize,
    weights: Vec<i64>,
}

/// Computes the windows of all new pixels along an axis.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positions lie inside the picture, weights below 1 << 22"
)]
fn windows(old: u32, new: u32) -> Result<Vec<Window>, MediaError> {
    let scale = f64::from(old) / f64::from(new);
    let reach = scale.max(1.0);
    let mut windows = alloc::vec(new as usize)?;
    for index in 0..new {
        let centre = (f64::from(index) + 0.5) * scale;
        let first = (centre - reach + 0.5).max(0.0) as u32;
        let end = ((centre + reach + 0.5) as u32).min(old);
        let weight = |at: u32| (1.0 - ((f64::from(at) - centre + 0.5) / reach).abs()).max(0.0);
        let total: f64 = (first..end).map(weight).sum();
        let mut weights = alloc::vec(end.saturating_sub(first) as usize)?;
        weights.extend((first..end).map(|at| (0.5 + weight(at) / total * f64::from(1u32 << FRACTION)) as i64));
        windows.push(Window { first: first as usize, weights });
    }
    Ok(windows)
}

/// Adds up weighted bytes, `step` apart.
fn mix(window: &Window, bytes: &[u8], step: usize) -> u8 {
    let terms = window.weights.iter().zip(bytes.iter().step_by(step));
    let sum: i64 = terms.map(|(weight, &byte)| weight * i64::from(byte)).sum();
    u8::try_from((sum + (1 << (FRACTION - 1))) >> FRACTION).unwrap_or(u8::MAX)
}

/// Changes the width.
pub(super) fn horizontally(pixels: &[u8], width: u32, height: u32, new: u32) -> Result<Vec<u8>, MediaError> {
    let mut out = alloc::vec(bytes_of(new, height)?)?;
    if new == width {
        out.extend_from_slice(pixels);
        return Ok(out);
    }
    let windows = windows(width, new)?;
    for row in pixels.chunks_exact(width as usize * 3) {
        for window in &windows {
            out.extend((0..3).map(|channel| mix(window, &row[window.first * 3 + channel..], 3)));
        }
    }
    Ok(out)
}

/// Changes the height.
pub(super) fn vertically(pixels: &[u8], width: u32, height: u32, new: u32) -> Result<Vec<u8>, MediaError> {
    let mut out = alloc::vec(bytes_of(width, new)?)?;
    if new == height {
        out.extend_from_slice(pixels);
        return Ok(out);
    }
    let row_bytes = width as usize * 3;
    for window in windows(height, new)? {
        let rows = &pixels[window.first * row_bytes..];
        out.extend((0..row_bytes).map(|column| mix(&window, &rows[column..], row_bytes)));
    }
    Ok(out)
}
