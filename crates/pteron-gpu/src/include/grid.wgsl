// The index of a workgroup in a grid that may be folded to two dimensions (the other half is `Grid` in plan.rs).
fn group_index(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.y * groups.x + group.x;
}
