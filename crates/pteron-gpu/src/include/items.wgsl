// The items of a thread: four of the 1,024 of its workgroup, and where there are fewer the last of all again,
// to be read but not written.
fn own_items(first: u32, count: u32) -> vec4<u32> {
    return min(vec4<u32>(first) + vec4<u32>(0u, 256u, 512u, 768u), vec4<u32>(count - 1u));
}
