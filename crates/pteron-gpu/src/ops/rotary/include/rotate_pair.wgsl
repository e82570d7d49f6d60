// A pair turned by the angle that has this cosine and this sine.
fn turned(pair: vec2<f32>, cosine: f32, sine: f32) -> vec2<f32> {
    return vec2<f32>(pair.x * cosine - pair.y * sine, pair.x * sine + pair.y * cosine);
}
