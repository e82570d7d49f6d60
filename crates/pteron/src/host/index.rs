//! Elements of a tensor by masks and indices. How many a mask selects is known only when it is computed.

use pteron_format::ScalarType;

use super::select::{broadcast, position, source, truths, width};
use super::{Argument, at, created};
use crate::tensor::Tensor;

/// The most elements of an output.
const MOST: u64 = 1 << 28;

/// Indices along one dim, with the shape they have.
struct Indices {
    dim: usize,
    shape: Vec<u32>,
    values: Vec<i64>,
}

/// `index(self, indices)`. A mask stands for the indices of its true elements, one list for each of its dims.
pub(super) fn index(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    let tensor = at(args, 0)?.tensor()?;
    let (mut bytes, width) = (Vec::new(), width(tensor));
    let shape = each_named(args, tensor, |_, _, element| {
        bytes.extend_from_slice(tensor.bytes().get(range(element, width)).unwrap_or_default());
        Ok(())
    })?;
    Ok(vec![created(Tensor::new(tensor.scalar_type(), &shape, bytes))?])
}

/// `index_put(self, indices, values, accumulate)`. Of several values for one element the last one stays.
pub(super) fn index_put(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    let (tensor, values) = (at(args, 0)?.tensor()?, at(args, 2)?.tensor()?);
    let (adds, scalar_type) = (at(args, 3)?.int()? != 0, tensor.scalar_type());
    if values.scalar_type() != scalar_type {
        return Err(format!("puts {} into {}", values.scalar_type().name(), scalar_type.name()));
    }
    let (mut bytes, width) = (tensor.bytes().to_vec(), width(tensor));
    each_named(args, tensor, |shape, flat, element| {
        if flat == 0 && broadcast(values.shape(), shape).as_deref() != Some(shape) {
            return Err(format!("takes values of {:?} for {shape:?} elements", values.shape()));
        }
        let from = source(&position(flat, shape), values.shape());
        match (bytes.get_mut(range(element, width)), values.bytes().get(range(from, width))) {
            (Some(own), Some(new)) if adds => add(scalar_type, own, new),
            (Some(own), Some(new)) => {
                own.copy_from_slice(new);
                Ok(())
            }
            _ => Ok(()),
        }
    })?;
    Ok(vec![created(Tensor::new(scalar_type, tensor.shape(), bytes))?])
}

/// The bytes of an element.
fn range(element: usize, width: usize) -> std::ops::Range<usize> {
    element * width..(element + 1) * width
}

/// Adds an element to another one.
fn add(scalar_type: ScalarType, own: &mut [u8], new: &[u8]) -> Result<(), String> {
    match scalar_type {
        ScalarType::Float => {
            if let (Ok(a), Ok(b)) = (<[u8; 4]>::try_from(&*own), <[u8; 4]>::try_from(new)) {
                own.copy_from_slice(&(f32::from_le_bytes(a) + f32::from_le_bytes(b)).to_le_bytes());
            }
        }
        ScalarType::Long => {
            if let (Ok(a), Ok(b)) = (<[u8; 8]>::try_from(&*own), <[u8; 8]>::try_from(new)) {
                own.copy_from_slice(&i64::from_le_bytes(a).wrapping_add(i64::from_le_bytes(b)).to_le_bytes());
            }
        }
        other => return Err(format!("does not add {} on the host", other.name())),
    }
    Ok(())
}

/// Visits the elements of a tensor that the second argument names, in order: their shape, the position among them, and the element.
/// Returns the shape.
fn each_named(
    args: &[Argument<'_>],
    tensor: &Tensor,
    visit: impl FnMut(&[u32], usize, usize) -> Result<(), String>,
) -> Result<Vec<u32>, String> {
    let Argument::List(list) = at(args, 1)? else { return Err("takes a list of indices".to_owned()) };
    let (mut indices, mut dim) = (Vec::new(), 0);
    for item in list {
        match item {
            Some(mask) if matches!(mask.scalar_type(), ScalarType::Bool | ScalarType::Byte) => {
                indices.extend(of_mask(mask, dim)?);
                dim += mask.shape().len();
            }
            Some(own) => {
                let Some(values) = own.to_i64() else { return Err("takes whole numbers as indices".to_owned()) };
                indices.push(Indices { dim, shape: own.shape().to_vec(), values });
                dim += 1;
            }
            None => dim += 1,
        }
    }
    if indices.is_empty() || dim > tensor.shape().len() {
        return Err(format!("takes indices of {dim} dims for a tensor of {:?}", tensor.shape()));
    }
    select(tensor, &indices, visit)
}

/// The indices of a mask's true elements.
fn of_mask(mask: &Tensor, dim: usize) -> Result<Vec<Indices>, String> {
    let rank = mask.shape().len();
    let mut values = vec![Vec::new(); rank];
    for (flat, _) in truths(mask)?.iter().enumerate().filter(|(_, truth)| **truth) {
        position(flat, mask.shape()).iter().zip(&mut values).for_each(|(&index, values)| values.push(index.into()));
    }
    let lists = values.into_iter().enumerate().map(|(axis, values)| {
        let shape = vec![u32::try_from(values.len()).unwrap_or(u32::MAX)];
        Indices { dim: dim + axis, shape, values }
    });
    Ok(lists.collect())
}

/// Visits the elements at indices that are broadcast together. Their shape takes the place of the indexed dims, or comes first where a
/// dim that is not indexed lies between two that are.
fn select(
    tensor: &Tensor,
    indices: &[Indices],
    mut visit: impl FnMut(&[u32], usize, usize) -> Result<(), String>,
) -> Result<Vec<u32>, String> {
    let mut common = Vec::new();
    for own in indices {
        common = broadcast(&common, &own.shape).ok_or("takes indices whose shapes do not fit each other")?;
    }
    let from = tensor.shape();
    let adjacent = indices.windows(2).all(|pair| pair[1].dim == pair[0].dim + 1);
    let place = if adjacent { indices.first().map_or(0, |own| own.dim) } else { 0 };
    let kept: Vec<usize> = (0..from.len()).filter(|dim| indices.iter().all(|own| own.dim != *dim)).collect();
    let mut shape: Vec<u32> = kept.iter().map(|&dim| from[dim]).collect();
    shape.splice(place..place, common.iter().copied());
    let count = shape.iter().fold(1u64, |count, &size| count.saturating_mul(size.into()));
    if count > MOST {
        return Err(format!("has {count} elements, allowed are {MOST}"));
    }
    for flat in 0..usize::try_from(count).unwrap_or(0) {
        let mut own = position(flat, &shape);
        let by_index: Vec<u32> = own.splice(place..place + common.len(), []).collect();
        let mut at = vec![0; from.len()];
        kept.iter().zip(&own).for_each(|(&dim, &index)| at[dim] = index);
        for list in indices {
            let value = list.values.get(source(&by_index, &list.shape)).copied().unwrap_or_default();
            let size = i64::from(from[list.dim]);
            let index = if value < 0 { value + size } else { value };
            let Some(index) = u32::try_from(index).ok().filter(|_| index < size) else {
                return Err(format!("takes index {value} of a dim of {size}"));
            };
            at[list.dim] = index;
        }
        visit(&shape, flat, source(&at, from))?;
    }
    Ok(shape)
}
