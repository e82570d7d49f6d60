use pteron_format::vulkan::{DataType, Value, ValueId};

use crate::reference::HostTensor;
use crate::testing::{Dry, Sketch, check, f32s, noise, refusal};

struct Sizes {
    batch: u32,
    tokens: u32,
    heads: (u32, u32),
    dim: u32,
}

fn sketch(sizes: &Sizes, table: &[u32]) -> (Sketch, [ValueId; 2]) {
    let &Sizes { batch, tokens, heads, dim } = sizes;
    let mut sketch = Sketch::new();
    let float = DataType::Float32;
    let (q, k) = ([batch, tokens, heads.0, dim], [batch, tokens, heads.1, dim]);
    let args = [sketch.input(float, &q), sketch.input(float, &k), sketch.input(float, table), sketch.input(float, table)];
    let out = [sketch.tensor(float, &q), sketch.tensor(float, &k)];
    let list = sketch.value(Value::ValueList(out.to_vec()));
    sketch.call("et_vk.apply_rotary_emb.default", &[args[0], args[1], args[2], args[3], list]);
    out.iter().for_each(|&out| sketch.output(out));
    (sketch, out)
}

fn call(sizes: &Sizes) -> Vec<HostTensor> {
    let &Sizes { batch, tokens, heads, dim } = sizes;
    let x = |seed, heads| f32s(&[batch, tokens, heads, dim], noise(seed, (batch * tokens * heads * dim) as usize));
    let angles = noise(3, (tokens * dim / 2) as usize);
    let table = |f: fn(f32) -> f32| f32s(&[tokens, dim / 2], angles.iter().map(|&angle| f(angle * 3.0)).collect());
    vec![x(1, heads.0), x(2, heads.1), table(f32::cos), table(f32::sin)]
}

#[test]
fn any_length_of_queries_and_keys() {
    for (batch, heads, dim) in [(1, (8, 2), 64), (2, (3, 3), 6), (1, (1, 4), 2), (3, (2, 1), 18), (1, (32, 8), 128)] {
        let sizes = |batch, tokens| Sizes { batch, tokens, heads, dim };
        let (sketch, _) = sketch(&sizes(batch, 9), &[9, dim / 2]);
        check(&sketch, &[9, 1, 4, 0, 7, 9].map(|tokens| call(&sizes(batch, tokens))), 1e-5);
        check(&sketch, &[call(&sizes(1, 3))], 1e-5);
    }
}

#[test]
fn one_dispatch_turns_both() {
    let (sketch, out) = sketch(&Sizes { batch: 1, tokens: 5, heads: (4, 2), dim: 8 }, &[5, 4]);
    let mut dry = Dry::new(&sketch).unwrap();
    assert_eq!(dry.recipes(0), [0]);
    dry.call(&[(&[1, 3, 4, 8], &[]), (&[1, 3, 2, 8], &[]), (&[3, 4], &[]), (&[3, 4], &[])]).unwrap();
    assert_eq!(out.map(|out| dry.dims(out)), [[1, 3, 4, 8], [1, 3, 2, 8]]);
    dry.call(&[(&[1, 0, 4, 8], &[]), (&[1, 0, 2, 8], &[]), (&[0, 4], &[]), (&[0, 4], &[])]).unwrap();
    assert!(dry.recipes(0).is_empty());
}

#[test]
fn what_is_refused() {
    let sizes = Sizes { batch: 1, tokens: 5, heads: (4, 2), dim: 8 };
    let (good, _) = sketch(&sizes, &[5, 4]);
    let mut dry = Dry::new(&good).unwrap();
    let mut refused = |q: &[u32], k: &[u32], cos: &[u32], sin: &[u32]| {
        dry.call(&[(q, &[]), (k, &[]), (cos, &[]), (sin, &[])]).unwrap_err().to_string()
    };
    let error = refused(&[1, 3, 4, 8], &[1, 2, 2, 8], &[3, 4], &[3, 4]);
    assert!(error.contains("`xk` is [1, 2, 2, 8], expected [1, 3, heads, 8]"), "{error}");
    let error = refused(&[1, 3, 4, 8], &[1, 3, 2, 6], &[3, 4], &[3, 4]);
    assert!(error.contains("`xk` is [1, 3, 2, 6]"), "{error}");
    let error = refused(&[1, 3, 4, 8], &[1, 3, 2, 8], &[5, 4], &[3, 4]);
    assert!(error.contains("`freqs_cos` is [5, 4], expected [3, 4]"), "{error}");
    let error = refused(&[1, 3, 4, 8], &[1, 3, 2, 8], &[3, 4], &[3, 3]);
    assert!(error.contains("`freqs_sin` is [3, 3], expected [3, 4]"), "{error}");
    let error = refused(&[1, 3, 4, 7], &[1, 3, 2, 7], &[3, 3], &[3, 3]);
    assert!(error.contains("`xq` is [1, 3, 4, 7]: a head dim of 7 cannot be paired"), "{error}");
    assert!(refusal(&sketch(&sizes, &[5, 1, 4]).0).contains("`freqs_cos` is [5, 1, 4], expected [5, 4]"));
}
