// Averages of windows. `pool_window` describes the work of a thread.

//#include pool_window

// The number of elements that a sum is divided by; padding counts up to its end.
fn divisor(output: Output, valid: i32) -> f32 {
    if params.divisor != 0.0 {
        return params.divisor;
    }
    if params.include_padding == 1u {
        let down = min(i32(params.kernel_h), i32(params.input_h + params.before_h) - output.top);
        let across = min(i32(params.kernel_w), i32(params.input_w + params.before_w) - output.left);
        return f32(down * across);
    }
    return f32(valid);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups) * 256u + thread;
    if index >= params.count {
        return;
    }
    let output = output_at(index);
    let top = max(output.top, 0);
    let left = max(output.left, 0);
    let bottom = min(i32(params.input_h), output.top + i32(params.kernel_h));
    let right = min(i32(params.input_w), output.left + i32(params.kernel_w));
    var sum = T();
    for (var y = top; y < bottom; y++) {
        for (var z = left; z < right; z++) {
            sum += x[output.first + (u32(y) * params.input_w + u32(z)) * params.inner];
        }
    }
    // A window without elements has no average.
    let valid = max(bottom - top, 0) * max(right - left, 0);
    if valid > 0 {
        sum = sum / divisor(output, valid);
    }
    out[index] = sum;
}
