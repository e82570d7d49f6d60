//! Reads a method's inputs from a file of arrays.

use pteron::{Method, ScalarType, Tensor, TensorSpec};

use crate::failure::Reason;
use crate::npy::Header;
use crate::npz::Npz;

/// Reads the inputs of a call: `arr_0`, `arr_1`, … and no other arrays.
pub(super) fn read(file: &Npz, method: &Method) -> Result<Vec<Tensor>, Reason> {
    read_with(file, method, None)
}

/// Reads the inputs of a call, one of which may be given.
pub(super) fn read_with(file: &Npz, method: &Method, given: Option<(usize, &Tensor)>) -> Result<Vec<Tensor>, Reason> {
    let mut inputs = Vec::with_capacity(method.inputs().len());
    for (index, spec) in method.inputs().iter().enumerate() {
        if let Some((_, tensor)) = given.filter(|(at, _)| *at == index) {
            inputs.push(tensor.clone());
            continue;
        }
        let name = name(index);
        let Some((header, elements)) = file.array(&name, |header| accept(&name, header, spec))? else {
            return Err(Reason::MissingArray { name, takes: takes(method), found: list(file.names().map(str::to_owned)) });
        };
        let tensor = Tensor::new(header.scalar_type, &header.shape, elements);
        inputs.push(tensor.map_err(|error| Reason::Runtime(Box::new(error)))?);
    }
    let is_given = |index: usize| given.is_some_and(|(at, _)| at == index);
    let known = |found: &&str| (0..inputs.len()).any(|index| !is_given(index) && name(index) == **found);
    match file.names().find(|found| !known(found)) {
        Some(extra) => Err(Reason::ExtraArray { name: extra.to_owned(), takes: takes(method) }),
        None => Ok(inputs),
    }
}

/// Inputs of the largest shapes: floats from −1 to 1 that follow from a seed, and zeros of other types.
pub(super) fn random(seed: u64, method: &Method) -> pteron::Result<Vec<Tensor>> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        #[allow(clippy::cast_precision_loss, reason = "24 bits are exact")]
        let number = (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40) as f32;
        number / 8_388_608.0 - 1.0
    };
    let mut input = |spec: &TensorSpec| match spec.scalar_type {
        ScalarType::Float => {
            let count = spec.shape.iter().map(|&dim| dim as usize).product();
            Tensor::from_f32(&spec.shape, &(0..count).map(|_| next()).collect::<Vec<f32>>())
        }
        other => Tensor::zeros(other, &spec.shape),
    };
    method.inputs().iter().map(&mut input).collect()
}

/// Adds the call's inputs to an error of an operator, which names its own arguments only.
pub(super) fn refused(error: pteron::Error, inputs: &[Tensor]) -> Reason {
    let describe = |(index, input): (usize, &Tensor)| match input.to_i64().as_deref() {
        Some([single]) => format!("{} = {single}", name(index)),
        _ => format!("{} {:?}", name(index), input.shape()),
    };
    match error {
        pteron::Error::Gpu(pteron_gpu::Error::Operator(_) | pteron_gpu::Error::Capacity { .. }) => {
            Reason::Refused { error: Box::new(error), call: list(inputs.iter().enumerate().map(describe)) }
        }
        other => other.into(),
    }
}

pub(super) fn name(index: usize) -> String {
    format!("arr_{index}")
}

/// Checks an array's type and shape before its elements are read.
fn accept(name: &str, header: &Header, spec: &TensorSpec) -> Result<(), Reason> {
    let fail = |reason| Err(Reason::Array { name: name.to_owned(), reason });
    if header.scalar_type != spec.scalar_type {
        let (came, needed) = (header.scalar_type.name(), spec.scalar_type.name());
        return fail(format!("is {came}, but the method takes {needed}"));
    }
    let fits = |(&live, &bound): (&u32, &u32)| if spec.dynamic { live <= bound } else { live == bound };
    if header.shape.len() != spec.shape.len() || !header.shape.iter().zip(&spec.shape).all(fits) {
        return fail(format!("has shape {:?}, allowed is {}", header.shape, allowed(spec)));
    }
    Ok(())
}

fn allowed(spec: &TensorSpec) -> String {
    format!("{}{:?}", if spec.dynamic { "up to " } else { "" }, spec.shape)
}

/// Lists the inputs of a method, as a clause.
pub(super) fn takes(method: &Method) -> String {
    let input =
        |(index, spec): (usize, &TensorSpec)| format!("{} ({} {})", name(index), spec.scalar_type.name(), allowed(spec));
    format!("{:?} takes {}", method.name(), list(method.inputs().iter().enumerate().map(input)))
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "no arrays".to_owned() } else { items.join(", ") }
}
