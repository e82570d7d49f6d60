use super::NAME;
use crate::ir::DataType;
use crate::reference::{HostData, HostTensor};
use crate::testing::{GraphBuilder, check, dims, load_error, noise_bytes};

fn builder(x: [u32; 4]) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let input = builder.input(DataType::Int8, &x);
    let out = builder.tensor(DataType::Int8, &[x[0], 1, 1, x[3]]);
    let args = [input, builder.float(0.021), builder.int(-11), builder.float(0.0093), builder.int(5), out];
    builder.call(NAME, &args);
    builder.output(out);
    builder
}

#[test]
fn means_are_exact_at_live_sizes() {
    for x in [[2, 7, 7, 12], [3, 5, 9, 5], [1, 40, 30, 16]] {
        let shapes = [x, [1, 1, 1, x[3]], [x[0], 3, 2, x[3]], [0, 4, 4, x[3]]];
        let call = |shape: &[u32; 4]| {
            let bytes = noise_bytes(u64::from(shape[1]), shape.iter().product::<u32>() as usize);
            vec![HostTensor { dims: dims(shape), data: HostData::U8(bytes) }]
        };
        check(&builder(x), &shapes.iter().map(call).collect::<Vec<_>>(), 0.0);
    }
}

#[test]
fn images_without_pixels_are_refused() {
    assert!(load_error(&builder([1, 0, 3, 4])).contains("`input` is [1, 0, 3, 4], expected 1 to 4194304 pixels"));
}
