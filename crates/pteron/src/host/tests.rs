use pteron_format::ScalarType;

use super::*;

fn kernel(full: &str) -> Kernel {
    let (name, overload) = full.split_once('.').unwrap_or((full, ""));
    find(&Operator { name: name.to_owned(), overload: overload.to_owned() }).expect("the host has it")
}

fn floats(shape: &[u32], values: &[f32]) -> Tensor {
    Tensor::from_f32(shape, values).unwrap()
}

#[test]
fn nonzero_lists_indices_in_order() {
    let x = floats(&[2, 3], &[0.0, 1.0, -0.0, f32::NAN, 0.0, -2.0]);
    let out = kernel("aten::nonzero.out")(&[Argument::Tensor(&x)]).unwrap();
    assert_eq!((out[0].shape(), out[0].to_i64().unwrap()), (&[3, 2][..], vec![0, 1, 1, 0, 1, 2]));
    let none = floats(&[4], &[0.0; 4]);
    assert_eq!(kernel("aten::nonzero.out")(&[Argument::Tensor(&none)]).unwrap()[0].shape(), [0, 1]);
    let single = floats(&[], &[5.0]);
    assert_eq!(kernel("aten::nonzero.out")(&[Argument::Tensor(&single)]).unwrap()[0].shape(), [1, 0]);
}

#[test]
fn a_mask_is_broadcast() {
    let x = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let mask = Tensor::new(ScalarType::Bool, &[3], vec![1, 0, 1]).unwrap();
    let out = kernel("aten::masked_select.out")(&[Argument::Tensor(&x), Argument::Tensor(&mask)]).unwrap();
    assert_eq!(out[0].to_f32().unwrap(), [1.0, 3.0, 4.0, 6.0]);
    let other = Tensor::new(ScalarType::Bool, &[2], vec![1, 0]).unwrap();
    assert!(kernel("aten::masked_select.out")(&[Argument::Tensor(&x), Argument::Tensor(&other)]).is_err());
}

#[test]
fn counts_repeat_their_index() {
    let counts = Tensor::from_i64(&[3], &[2, 0, 1]).unwrap();
    let out = kernel("aten::repeat_interleave.Tensor_out")(&[Argument::Tensor(&counts), Argument::Other]).unwrap();
    assert_eq!(out[0].to_i64().unwrap(), [0, 0, 2]);
    for bad in [-1, 1 << 40] {
        let counts = Tensor::from_i64(&[1], &[bad]).unwrap();
        assert!(kernel("aten::repeat_interleave.Tensor_out")(&[Argument::Tensor(&counts), Argument::Other]).is_err());
    }
}

#[test]
fn sorting_is_stable_and_nan_is_largest() {
    let x = floats(&[2, 3], &[2.0, f32::NAN, 1.0, 1.0, 1.0, 0.0]);
    let args = |descending| [Argument::Tensor(&x), Argument::Int(-1), Argument::Int(descending)];
    let out = kernel("aten::sort.values")(&args(0)).unwrap();
    assert_eq!(out[1].to_i64().unwrap(), [2, 0, 1, 2, 0, 1]);
    let out = kernel("aten::sort.values")(&args(1)).unwrap();
    assert_eq!(out[1].to_i64().unwrap(), [1, 0, 2, 0, 1, 2]);
    let top = [Argument::Tensor(&x), Argument::Int(1), Argument::Int(0), Argument::Int(1), Argument::Int(1)];
    let out = kernel("aten::topk.values")(&top).unwrap();
    assert_eq!((out[0].shape(), out[1].to_i64().unwrap()), (&[1, 3][..], vec![0, 0, 0]));
    let most = [Argument::Tensor(&x), Argument::Int(4), Argument::Int(1), Argument::Int(1), Argument::Int(1)];
    assert!(kernel("aten::topk.values")(&most).is_err());
}

#[test]
fn numbers_follow_python() {
    let run = |name: &str, a: i64, b: i64| {
        kernel(name)(&[Argument::Int(a), Argument::Int(b)]).map(|out| out[0].to_i64().unwrap()[0])
    };
    assert_eq!(run("executorch_prim::floordiv.Scalar", -7, 2), Ok(-4));
    assert_eq!(run("executorch_prim::mod.Scalar", -7, 2), Ok(1));
    assert_eq!(run("executorch_prim::lt.Scalar", 1, 2), Ok(1));
    assert!(run("executorch_prim::floordiv.Scalar", 1, 0).is_err());
    assert!(run("executorch_prim::add.Scalar", i64::MAX, 1).is_err());
    let pair = floats(&[2], &[1.0, 2.0]);
    assert!(kernel("aten::_local_scalar_dense")(&[Argument::Tensor(&pair)]).is_err());
    assert_eq!(
        kernel("aten::sym_size.int")(&[Argument::Tensor(&pair), Argument::Int(-1)]).unwrap()[0].to_i64().unwrap(),
        [2]
    );
}

#[test]
fn fractions_are_rounded_to_whole_numbers() {
    let half = [Argument::Float(3.5)];
    let whole = |name: &str| kernel(name)(&half).unwrap()[0].to_i64().unwrap()[0];
    assert_eq!(
        ["trunc", "ceil", "round", "sym_int"].map(|name| whole(&format!("executorch_prim::{name}.Scalar"))),
        [3, 4, 4, 3]
    );
    let quotient = kernel("executorch_prim::truediv.Scalar")(&[Argument::Int(7), Argument::Int(2)]).unwrap();
    assert_eq!(quotient[0].to_f32().unwrap(), [3.5]);
    let chosen = [Argument::Int(0), Argument::Int(5), Argument::Int(6)];
    assert_eq!(kernel("executorch_prim::sym_ite.Scalar")(&chosen).unwrap()[0].to_i64().unwrap(), [6]);
}

#[test]
fn masks_and_indices_select_elements() {
    let x = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let run = |list: Vec<Option<&Tensor>>| kernel("aten::index.Tensor_out")(&[Argument::Tensor(&x), Argument::List(list)]);
    let both = Tensor::new(ScalarType::Bool, &[2, 3], vec![0, 1, 0, 1, 0, 1]).unwrap();
    assert_eq!(run(vec![Some(&both)]).unwrap()[0].to_f32().unwrap(), [2.0, 4.0, 6.0]);
    let rows = Tensor::new(ScalarType::Bool, &[2], vec![0, 1]).unwrap();
    let out = run(vec![Some(&rows)]).unwrap();
    assert_eq!((out[0].shape(), out[0].to_f32().unwrap()), (&[1, 3][..], vec![4.0, 5.0, 6.0]));
    let columns = Tensor::from_i64(&[2], &[-1, 0]).unwrap();
    let out = run(vec![None, Some(&columns)]).unwrap();
    assert_eq!((out[0].shape(), out[0].to_f32().unwrap()), (&[2, 2][..], vec![3.0, 1.0, 6.0, 4.0]));
    let beyond = Tensor::from_i64(&[1], &[3]).unwrap();
    assert!(run(vec![None, Some(&beyond)]).is_err());
    assert!(run(vec![Some(&both), Some(&columns)]).is_err());
}

#[test]
fn rows_of_a_loop_are_collected() {
    let (to, row) = (floats(&[4, 2], &[0.0; 8]), floats(&[2], &[1.0, 2.0]));
    let put = |to: &Tensor, index| {
        let args = [Argument::Tensor(to), Argument::Tensor(&row), Argument::Int(index)];
        kernel("executorch_prim::et_copy_index.tensor")(&args).map(|mut out| out.remove(0))
    };
    let first = put(&to, 0).unwrap();
    assert_eq!((first.shape(), first.to_f32().unwrap()), (&[1, 2][..], vec![1.0, 2.0]));
    assert_eq!(put(&first, 1).unwrap().shape(), [2, 2]);
    assert!(put(&first, 2).is_err(), "no row lies before it");
    assert!(put(&to, -1).is_err());
}

#[test]
fn values_replace_or_add_to_the_elements_of_a_mask() {
    let x = floats(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let mask = Tensor::new(ScalarType::Bool, &[3], vec![1, 0, 1]).unwrap();
    let put = |values: &Tensor, accumulate| {
        let args =
            [Argument::Tensor(&x), Argument::List(vec![Some(&mask)]), Argument::Tensor(values), Argument::Int(accumulate)];
        kernel("aten::index_put.out")(&args).map(|out| out[0].to_f32().unwrap())
    };
    let rows = floats(&[2, 2], &[7.0, 8.0, 9.0, 10.0]);
    assert_eq!(put(&rows, 0).unwrap(), [7.0, 8.0, 3.0, 4.0, 9.0, 10.0]);
    assert_eq!(put(&rows, 1).unwrap(), [8.0, 10.0, 3.0, 4.0, 14.0, 16.0]);
    assert_eq!(put(&floats(&[1], &[0.5]), 0).unwrap(), [0.5, 0.5, 3.0, 4.0, 0.5, 0.5]);
    assert!(put(&floats(&[3, 2], &[0.0; 6]), 0).unwrap_err().contains("[3, 2]"), "the mask has two true elements");
    let whole = Tensor::from_i64(&[2, 2], &[1; 4]).unwrap();
    assert!(put(&whole, 0).is_err(), "of another type");
}

#[test]
fn the_last_of_several_values_for_an_element_stays() {
    let x = Tensor::from_i64(&[3], &[0; 3]).unwrap();
    let (indices, values) = (Tensor::from_i64(&[3], &[-1, 0, 2]).unwrap(), Tensor::from_i64(&[3], &[4, 5, 6]).unwrap());
    let put = |accumulate| {
        let list = Argument::List(vec![Some(&indices)]);
        let args = [Argument::Tensor(&x), list, Argument::Tensor(&values), Argument::Int(accumulate)];
        kernel("aten::index_put.out")(&args).unwrap()[0].to_i64().unwrap()
    };
    assert_eq!((put(0), put(1)), (vec![5, 0, 6], vec![5, 0, 10]));
}
