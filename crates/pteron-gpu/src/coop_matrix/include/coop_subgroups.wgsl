    // The subgroups of a workgroup, the lanes of each, and this thread among them. Where the driver chooses the size, there may be fewer
    // subgroups with more lanes.
    //#unroll fixed {FIXED}
    let subgroups = SUBGROUPS;
    let lanes = LANES;
    let subgroup = thread / LANES;
    let lane = thread % LANES;
    //#end
    //#unroll varying {VARYING}
    if thread == 0u {
        subgroup_count = found_subgroups;
    }
    workgroupBarrier();
    let subgroups = subgroup_count;
    let lanes = found_lanes;
    let subgroup = found_subgroup;
    let lane = found_lane;
    //#end
