// Threads in clusters of LANES lanes, and reductions over a cluster. Where all subgroups have one size (WHOLE = 1), a cluster is a
// subgroup. Where the driver chooses among sizes, LANES is the smallest: a subgroup has one cluster or more, and shuffles reduce each.

override LANES: u32 = 32u;
override WHOLE: u32 = 1u;

// The index of a thread in its workgroup, in the order of lanes. Subgroups are full.
fn thread_of(subgroup: u32, lane: u32, subgroup_size: u32) -> u32 {
    return subgroup * select(subgroup_size, LANES, WHOLE == 1u) + lane;
}

fn sum_lanes(v: f32) -> f32 {
    if WHOLE == 1u {
        return subgroupAdd(v);
    }
    var sum = v;
    for (var distance = 1u; distance < LANES; distance *= 2u) {
        sum += subgroupShuffleXor(sum, distance);
    }
    return sum;
}

fn sum_vector_lanes(v: vec4<f32>) -> vec4<f32> {
    if WHOLE == 1u {
        return subgroupAdd(v);
    }
    var sum = v;
    for (var distance = 1u; distance < LANES; distance *= 2u) {
        sum += subgroupShuffleXor(sum, distance);
    }
    return sum;
}

fn max_lanes(v: f32) -> f32 {
    if WHOLE == 1u {
        return subgroupMax(v);
    }
    var largest = v;
    for (var distance = 1u; distance < LANES; distance *= 2u) {
        largest = max(largest, subgroupShuffleXor(largest, distance));
    }
    return largest;
}

fn max_pair_lanes(v: vec2<i32>) -> vec2<i32> {
    if WHOLE == 1u {
        return subgroupMax(v);
    }
    var largest = v;
    for (var distance = 1u; distance < LANES; distance *= 2u) {
        largest = max(largest, subgroupShuffleXor(largest, distance));
    }
    return largest;
}
