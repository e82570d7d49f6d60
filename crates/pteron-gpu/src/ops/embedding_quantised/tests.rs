use crate::ir::DataType;
use crate::reference::{HostData, HostTensor};
use crate::testing::case::{Arg, Case, F, I, I8, U8, int, none, x};
use crate::testing::{check, dims, i32s, load_error};

fn case(name: &'static str, dtype: DataType, bytes: u32, width: u32, scales: &[u32], zeros: Arg) -> Case {
    let mut args = vec![x(dtype, &[7, bytes]), x(F, scales), zeros, int(-8), int(7), Arg::Indices(vec![1, 5], 7)];
    if name.ends_with("dtype") {
        args.push(none());
    }
    Case::new(name, args, (F, &[1, 5, width]))
}

#[test]
fn tables_of_every_width_and_grouping_agree() {
    for (bits, per_byte) in [("byte", 1), ("4bit", 2), ("2bit", 4)] {
        let name = |typed| match (bits, typed) {
            ("byte", false) => "quantized_decomposed.embedding_byte.default",
            ("byte", true) => "quantized_decomposed.embedding_byte.dtype",
            ("4bit", false) => "quantized_decomposed.embedding_4bit.default",
            ("4bit", true) => "quantized_decomposed.embedding_4bit.dtype",
            (_, false) => "quantized_decomposed.embedding_2bit.default",
            (_, true) => "quantized_decomposed.embedding_2bit.dtype",
        };
        let dtype = if bits == "byte" { I8 } else { U8 };
        for (bytes, groups) in [(12, 1), (12, 3), (5, 5)] {
            let width = bytes * per_byte;
            case(name(false), dtype, bytes, width, &[7], none()).check(&[], 1e-6);
            for zeros in [F, I, I8, U8] {
                case(name(true), dtype, bytes, width, &[7, groups], x(zeros, &[7, groups])).check(&[], 1e-4);
            }
        }
    }
    case("quantized_decomposed.embedding_byte.default", U8, 12, 12, &[7], none()).check(&[], 1e-6);
}

/// ExecuTorch's order, independent of the reference.
#[test]
fn the_even_column_is_the_high_half_of_a_byte() {
    let case = |name, width| {
        let args = [x(U8, &[1, 1]), x(F, &[1]), none(), int(0), int(0), Arg::Indices(vec![1], 1)];
        Case::new(name, args, (F, &[1, width]))
    };
    let table = HostTensor { dims: dims(&[1, 1]), data: HostData::U8(vec![0x29]) };
    let inputs = vec![table, crate::testing::f32s(&[1], vec![1.0]), i32s(&[1], vec![0])];
    for (name, want) in [
        ("quantized_decomposed.embedding_4bit.default", vec![-6.0, 1.0]),
        ("quantized_decomposed.embedding_2bit.default", vec![-1.0, 0.0, 0.0, -2.0]),
    ] {
        let builder = case(name, u32::try_from(want.len()).unwrap()).builder();
        let loaded = builder.load(&crate::engine::LoadOptions::default()).unwrap();
        let out = crate::testing::run(&loaded, &mut loaded.new_state().unwrap(), &inputs).unwrap().remove(0);
        assert_eq!(bytemuck::pod_collect_to_vec::<u8, f32>(&out.bytes), want, "{name}");
        check(&builder, std::slice::from_ref(&inputs), 0.0);
    }
}

#[test]
fn scales_of_another_shape_are_rejected() {
    let text = load_error(&case("quantized_decomposed.embedding_byte.default", I8, 12, 12, &[7, 5], none()).builder());
    assert!(text.contains("`weight_scales` is [7, 5], expected one or more for each of 7 rows of 12 columns"), "{text}");
}
