// Clamps a number; NaN, which is detected by its bits, stays.
fn clamped(value: f32, low: f32, high: f32) -> f32 {
    let is_nan = (bitcast<u32>(value) & 0x7fffffffu) > 0x7f800000u;
    return select(min(max(value, low), high), value, is_nan);
}
