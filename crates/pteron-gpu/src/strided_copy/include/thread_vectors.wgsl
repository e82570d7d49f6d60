// The four vectors of a thread, 256 apart. Past the end it is the last vector again, to be loaded but not stored.
fn thread_vectors(first: u32, count: u32) -> vec4<u32> {
    return min(vec4<u32>(first) + vec4<u32>(0u, 256u, 512u, 768u), vec4<u32>(count - 1u));
}
