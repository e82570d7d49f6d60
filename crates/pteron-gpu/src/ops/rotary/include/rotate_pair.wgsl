// Rotates a pair by the angle with this cosine and sine.
fn rotate_pair(pair: vec2<f32>, cosine: f32, sine: f32) -> vec2<f32> {
    return vec2<f32>(pair.x * cosine - pair.y * sine, pair.x * sine + pair.y * cosine);
}
