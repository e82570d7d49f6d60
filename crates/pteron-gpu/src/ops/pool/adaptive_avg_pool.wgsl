// Averages of windows. `adaptive_window` describes the work of a thread.

//#include adaptive_window

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups) * 256u + thread;
    if index >= params.count {
        return;
    }
    let window = window_of(index);
    var sum = 0.0;
    for (var z = window.begin.x; z < window.end.x; z++) {
        for (var y = window.begin.y; y < window.end.y; y++) {
            let row = window.first + (z * params.input.y + y) * params.input.z;
            for (var column = window.begin.z; column < window.end.z; column++) {
                sum += x[row + column];
            }
        }
    }
    let size = window.end - window.begin;
    out[index] = sum / f32(size.x * size.y * size.z);
}
