//! `DLPack`: tensors of other libraries without a copy, in both directions.
//!
//! The structures are those of `dlpack.h`, version 1.0 and before. <https://dmlc.github.io/dlpack/latest/>
#![allow(unsafe_code, reason = "structures of other libraries are read and written through pointers")]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use pteron::ScalarType;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::array::Memory;
use crate::errors::InputError;
use crate::strided::Strided;

const NAME: &std::ffi::CStr = c"dltensor";
const VERSIONED: &std::ffi::CStr = c"dltensor_versioned";

/// `kDLCPU`.
pub(crate) const CPU: i32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    kind: i32,
    index: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    rank: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct ManagedTensor {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

#[repr(C)]
struct VersionedTensor {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut VersionedTensor)>,
    flags: u64,
    tensor: Tensor,
}

/// The tensor in a capsule, which must be kept alive and not be consumed while its memory is used. `Err` holds the kind of device if
/// it is not the host.
pub(crate) fn tensor_in(capsule: &Bound<'_, PyCapsule>) -> PyResult<Result<Strided, i32>> {
    let tensor = if capsule.is_valid_checked(Some(NAME)) {
        let managed = capsule.pointer_checked(Some(NAME))?.cast::<ManagedTensor>();
        // SAFETY: a capsule of this name that nobody has consumed holds a managed tensor.
        unsafe { &managed.as_ref().tensor }
    } else {
        let managed = capsule.pointer_checked(Some(VERSIONED))?.cast::<VersionedTensor>();
        // SAFETY: as above; `major` comes first in every version.
        let managed = unsafe { managed.as_ref() };
        if managed.major != 1 {
            let sentence = format!("the tensor is in version {} of DLPack, and Pteron reads version 1", managed.major);
            return Err(InputError::new_err(sentence));
        }
        &managed.tensor
    };
    if tensor.device.kind != CPU {
        return Ok(Err(tensor.device.kind));
    }
    read(tensor).map(Ok)
}

fn read(tensor: &Tensor) -> PyResult<Strided> {
    let DataType { code, bits, lanes } = tensor.dtype;
    let Some(scalar_type) = scalar_type(code, bits).filter(|_| lanes == 1) else {
        let sentence = format!("elements of DLPack code {code} with {bits} bits are of no type that programs have");
        return Err(InputError::new_err(sentence));
    };
    let rank = usize::try_from(tensor.rank).unwrap_or(0);
    let list = |pointer: *mut i64| {
        if rank == 0 || pointer.is_null() {
            return None;
        }
        // SAFETY: both lists have as many numbers as the tensor has dimensions; a missing one is null.
        let list = unsafe { std::slice::from_raw_parts(pointer, rank) };
        Some(list.to_vec())
    };
    let shape = list(tensor.shape).unwrap_or_default();
    let data = tensor.data.cast::<u8>().wrapping_add(usize::try_from(tensor.byte_offset).unwrap_or(0));
    Strided::new(scalar_type, data, &shape, list(tensor.strides))
}

fn scalar_type(code: u8, bits: u8) -> Option<ScalarType> {
    ScalarType::ALL.iter().copied().find(|&scalar| data_type(scalar).is_some_and(|own| (own.code, own.bits) == (code, bits)))
}

fn data_type(scalar: ScalarType) -> Option<DataType> {
    use ScalarType as T;
    let (code, bits) = match scalar {
        T::Char => (0, 8),
        T::Short => (0, 16),
        T::Int => (0, 32),
        T::Long => (0, 64),
        T::Byte => (1, 8),
        T::UInt16 => (1, 16),
        T::UInt32 => (1, 32),
        T::UInt64 => (1, 64),
        T::Half => (2, 16),
        T::Float => (2, 32),
        T::Double => (2, 64),
        T::BFloat16 => (4, 16),
        T::Bool => (6, 8),
        _ => return None,
    };
    Some(DataType { code, bits, lanes: 1 })
}

/// A tensor of ours in a capsule's hands, and the memory it refers to.
struct Exported {
    managed: ManagedTensor,
    shape: Vec<i64>,
    memory: Arc<Memory>,
}

/// A capsule with memory of ours, for the `__dlpack__` protocol.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    scalar: ScalarType,
    shape: &[u32],
    memory: Arc<Memory>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let Some(dtype) = data_type(scalar) else {
        return Err(pyo3::exceptions::PyBufferError::new_err(format!("DLPack has no type for {}", scalar.name())));
    };
    let mut exported = Box::new(Exported {
        managed: ManagedTensor {
            tensor: Tensor {
                data: memory.pointer().cast(),
                device: Device { kind: CPU, index: 0 },
                rank: i32::try_from(shape.len()).unwrap_or(0),
                dtype,
                shape: std::ptr::null_mut(),
                strides: std::ptr::null_mut(),
                byte_offset: 0,
            },
            context: std::ptr::null_mut(),
            deleter: Some(delete),
        },
        shape: shape.iter().map(|&dim| i64::from(dim)).collect(),
        memory,
    });
    exported.managed.tensor.shape = exported.shape.as_mut_ptr();
    debug_assert_eq!(exported.memory.pointer().cast(), exported.managed.tensor.data);
    let exported = Box::into_raw(exported);
    // SAFETY: the pointer is that of a box, which the deleter gets back.
    unsafe {
        (*exported).managed.context = exported.cast();
        let managed = NonNull::new_unchecked(&raw mut (*exported).managed);
        PyCapsule::new_with_pointer_and_destructor(py, managed.cast(), NAME, Some(release))
    }
}

/// Frees a tensor of ours, in any thread, with or without the GIL.
unsafe extern "C" fn delete(managed: *mut ManagedTensor) {
    // SAFETY: `context` is the box that `capsule` made, and a deleter is called once.
    unsafe { drop(Box::from_raw((*managed).context.cast::<Exported>())) };
}

/// The destructor of our capsules: frees the tensor unless a consumer took it, which renames the capsule.
unsafe extern "C" fn release(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule that `capsule` made; the name tells whether the tensor is still ours.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}
