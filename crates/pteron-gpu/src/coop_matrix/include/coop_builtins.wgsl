        //#unroll varying {VARYING}
        @builtin(subgroup_id) found_subgroup: u32, @builtin(subgroup_invocation_id) found_lane: u32,
        @builtin(subgroup_size) found_lanes: u32, @builtin(num_subgroups) found_subgroups: u32,
        //#end
