//! Reads a method's inputs from a file of arrays.

use pteron::{Method, Tensor, TensorSpec};

use crate::failure::Reason;
use crate::npy::Header;
use crate::npz::Npz;

/// Reads the inputs of a call: `arr_0`, `arr_1`, … and no other arrays.
pub(super) fn read(file: &Npz, method: &Method) -> Result<Vec<Tensor>, Reason> {
    let mut inputs = Vec::with_capacity(method.inputs().len());
    for (index, spec) in method.inputs().iter().enumerate() {
        let name = name(index);
        let Some((header, elements)) = file.array(&name, |header| accept(&name, header, spec))? else {
            return Err(Reason::MissingArray { name, takes: takes(method), found: list(file.names().map(str::to_owned)) });
        };
        let tensor = Tensor::new(header.scalar_type, &header.shape, elements);
        inputs.push(tensor.map_err(|error| Reason::Runtime(Box::new(error)))?);
    }
    let known = |found: &&str| (0..inputs.len()).any(|index| name(index) == **found);
    match file.names().find(|found| !known(found)) {
        Some(extra) => Err(Reason::ExtraArray { name: extra.to_owned(), takes: takes(method) }),
        None => Ok(inputs),
    }
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

fn name(index: usize) -> String {
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
fn takes(method: &Method) -> String {
    let input =
        |(index, spec): (usize, &TensorSpec)| format!("{} ({} {})", name(index), spec.scalar_type.name(), allowed(spec));
    format!("{:?} takes {}", method.name(), list(method.inputs().iter().enumerate().map(input)))
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "no arrays".to_owned() } else { items.join(", ") }
}
