// Maxima of windows, and their indices in the image. Of equal ones the first wins, of NaN the last. `adaptive_window` describes the work
// of a thread.

//#include adaptive_window

@group(0) @binding(3) var<storage, read_write> indices: array<i32>;

fn is_nan(v: f32) -> bool {
    return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups) * 256u + thread;
    if index >= params.count {
        return;
    }
    let window = window_of(index);
    var largest = params.lowest;
    var at = (window.begin.x * params.input.y + window.begin.y) * params.input.z + window.begin.z;
    for (var z = window.begin.x; z < window.end.x; z++) {
        for (var y = window.begin.y; y < window.end.y; y++) {
            let row = (z * params.input.y + y) * params.input.z;
            for (var column = window.begin.z; column < window.end.z; column++) {
                let v = x[window.first + row + column];
                if is_nan(v) || (v > largest && !is_nan(largest)) {
                    largest = v;
                    at = row + column;
                }
            }
        }
    }
    out[index] = largest;
    indices[index] = i32(at);
}
