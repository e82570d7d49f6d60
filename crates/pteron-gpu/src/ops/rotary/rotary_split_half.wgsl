// Rotary embedding of split halves: pairs (x[i], x[i + half]) in every head of queries and keys (NeoX and Hugging Face
// layout). Rows of the tables start at a step word; each element of a pair has its own table entry. Elements past both halves
// are copied. A workgroup of 256 threads does 256 items, one per thread: a pair of T, or a T to copy; the keys' items follow
// the queries'. T is a vector of four, or one element where halves are not whole vectors.

//#include grid

struct Params {
    // T in a head and in a half.
    width: u32,
    half: u32,
    tokens: u32,
    q_heads: u32,
    k_heads: u32,
    // Items of the queries, and of both.
    q_count: u32,
    count: u32,
    // Where this operator's words start in the per-step block.
    step_base: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> xq: array<T>;
@group(0) @binding(2) var<storage, read> xk: array<T>;
@group(0) @binding(3) var<storage, read> freqs_cos: array<T>;
@group(0) @binding(4) var<storage, read> freqs_sin: array<T>;
@group(0) @binding(5) var<storage, read> step: array<u32>;
@group(0) @binding(6) var<storage, read_write> xq_out: array<T>;
@group(0) @binding(7) var<storage, read_write> xk_out: array<T>;

struct Item {
    // Where it is, or the first of its pair; the second is half a head further.
    at: u32,
    // The same in the tables.
    angle: u32,
    rotates: bool,
}

fn item(i: u32, heads: u32) -> Item {
    let items = params.width - params.half;
    let head = i / items;
    let part = i % items;
    let rotates = part < params.half;
    let row = step[params.step_base] + head / heads % params.tokens;
    return Item(head * params.width + select(part + params.half, part, rotates), row * 2u * params.half + part, rotates);
}

fn first(a: T, b: T, angle: u32) -> T {
    return a * freqs_cos[angle] - b * freqs_sin[angle];
}

fn second(a: T, b: T, angle: u32) -> T {
    return b * freqs_cos[angle + params.half] + a * freqs_sin[angle + params.half];
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i < params.q_count {
        let own = item(i, params.q_heads);
        let a = xq[own.at];
        if own.rotates {
            let b = xq[own.at + params.half];
            xq_out[own.at] = first(a, b, own.angle);
            xq_out[own.at + params.half] = second(a, b, own.angle);
        } else {
            xq_out[own.at] = a;
        }
    } else if i < params.count {
        let own = item(i - params.q_count, params.k_heads);
        let a = xk[own.at];
        if own.rotates {
            let b = xk[own.at + params.half];
            xk_out[own.at] = first(a, b, own.angle);
            xk_out[own.at + params.half] = second(a, b, own.angle);
        } else {
            xk_out[own.at] = a;
        }
    }
}
