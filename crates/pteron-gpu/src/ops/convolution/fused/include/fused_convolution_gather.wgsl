// Products along taps and channels: the position of a thread among vectors of four input channels, and loads of those vectors.

// Whether pixels and groups have whole vectors of channels.
override WIDE: u32 = 1u;

struct Position {
    tap_h: u32,
    tap_w: u32,
    vector: u32,
}

fn position_of(vector: u32) -> Position {
    let tap = vector / params.vectors;
    return Position(tap / params.kernel_w, tap % params.kernel_w, vector % params.vectors);
}

// Some vectors further, with few divisions: they are slow.
fn advanced(position: Position, vectors: u32) -> Position {
    var next = position;
    next.vector += vectors;
    while next.vector >= params.vectors {
        next.vector -= params.vectors;
        next.tap_w += 1u;
        if next.tap_w == params.kernel_w {
            next.tap_w = 0u;
            next.tap_h += 1u;
        }
    }
    return next;
}

fn channel_at(at: u32, channel: u32) -> f32 {
    if channel < params.channels_in {
        return vec4<f32>(x[at + channel]).x;
    }
    return 0.0;
}

// The first channel of a group, of the input pixel at a tap of a window; none is 0xffffffff.
fn tap_at(window: Window, position: Position, first_channel: u32) -> u32 {
    let pixel = input_pixel(window, position.tap_h, position.tap_w);
    return select(pixel * params.all_in + first_channel, 0xffffffffu, pixel == 0xffffffffu);
}

// Four channels from the first channel of a tap on; 0 outside.
fn tap_vector(at: u32, vector: u32) -> vec4<f32> {
    if at == 0xffffffffu {
        return vec4<f32>();
    }
    if WIDE == 1u {
        return vec4<f32>(x[at / 4u + vector]);
    }
    let channel = vector * 4u;
    return vec4<f32>(channel_at(at, channel), channel_at(at, channel + 1u), channel_at(at, channel + 2u),
        channel_at(at, channel + 3u));
}

// Four channels of a group of the input pixel at a position of a window; 0 outside.
fn gathered(window: Window, position: Position, first_channel: u32) -> vec4<f32> {
    return tap_vector(tap_at(window, position, first_channel), position.vector);
}
