//! Conversion between JavaScript and Rust values.

use js_sys::{Object, Reflect, Uint8Array};
use pteron::{ScalarType, Tensor, TensorSpec};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;

use crate::error::{Result, error, input};

/// Converts to a plain JavaScript object.
pub(crate) fn to_js(value: &impl Serialize) -> Result<JsValue> {
    let serializer = serde_wasm_bindgen::Serializer::json_compatible();
    value.serialize(&serializer).map_err(|reason| error("internal", &reason.to_string()))
}

/// Parses options; `undefined` and `null` give the default.
pub(crate) fn options<T: DeserializeOwned + Default>(value: JsValue) -> Result<T> {
    if value.is_undefined() || value.is_null() {
        return Ok(T::default());
    }
    serde_wasm_bindgen::from_value(value).map_err(|reason| input(format!("options: {reason}")))
}

/// Converts a byte count to a JavaScript number.
#[allow(clippy::cast_precision_loss, reason = "files and memory are far below 2⁵³ bytes")]
pub(crate) fn number(bytes: u64) -> f64 {
    bytes as f64
}

/// Converts an offset or length from JavaScript.
pub(crate) fn bytes_of(number: f64, what: &str) -> Result<u64> {
    if !(0.0..=js_sys::Number::MAX_SAFE_INTEGER).contains(&number) || number.fract() != 0.0 {
        return Err(input(format!("{what} must be a whole number of bytes, not {number}")));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole and in range")]
    Ok(number as u64)
}

/// Element type and shape of a tensor.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    dtype: &'static str,
    shape: Vec<u32>,
    dynamic: bool,
}

pub(crate) fn specs(specs: &[TensorSpec]) -> Vec<Spec> {
    let spec =
        |spec: &TensorSpec| Spec { dtype: dtype_name(spec.scalar_type), shape: spec.shape.clone(), dynamic: spec.dynamic };
    specs.iter().map(spec).collect()
}

/// The element types of JavaScript tensors, by their NumPy names.
const DTYPES: [(&str, ScalarType); 8] = [
    ("float32", ScalarType::Float),
    ("float64", ScalarType::Double),
    ("float16", ScalarType::Half),
    ("int64", ScalarType::Long),
    ("int32", ScalarType::Int),
    ("uint8", ScalarType::Byte),
    ("int8", ScalarType::Char),
    ("bool", ScalarType::Bool),
];

fn dtype_name(scalar_type: ScalarType) -> &'static str {
    DTYPES.iter().find(|(_, known)| *known == scalar_type).map_or_else(|| scalar_type.name(), |(name, _)| name)
}

#[derive(Deserialize)]
struct TensorHead {
    dtype: String,
    shape: Vec<u32>,
}

/// Converts from `{ dtype, shape, bytes }`.
pub(crate) fn tensor_from(value: &JsValue) -> Result<Tensor> {
    let bytes = Reflect::get(value, &"bytes".into())?;
    let Some(bytes) = bytes.dyn_ref::<Uint8Array>() else { return Err(input("a tensor needs `bytes`, a Uint8Array")) };
    let head: TensorHead =
        serde_wasm_bindgen::from_value(value.clone()).map_err(|reason| input(format!("tensor: {reason}")))?;
    let Some((_, scalar_type)) = DTYPES.iter().find(|(name, _)| *name == head.dtype) else {
        let names: Vec<&str> = DTYPES.iter().map(|(name, _)| *name).collect();
        return Err(input(format!("unknown dtype {:?}; expected one of {}", head.dtype, names.join(", "))));
    };
    Tensor::new(*scalar_type, &head.shape, copy_of(bytes)?).map_err(|error| input(error.to_string()))
}

/// Copies the bytes of an array. Failing to allocate is an error here: elsewhere it would abort the module.
fn copy_of(array: &Uint8Array) -> Result<Vec<u8>> {
    let len = array.length() as usize;
    let mut bytes = Vec::new();
    let reserved = bytes.try_reserve_exact(len);
    reserved.map_err(|_| error("out-of-memory", &format!("out of memory for a tensor of {len} bytes")))?;
    bytes.resize(len, 0);
    array.copy_to(&mut bytes);
    Ok(bytes)
}

/// Converts to `{ dtype, shape, bytes }`.
pub(crate) fn tensor_to(tensor: &Tensor) -> Result<JsValue> {
    let object = Object::new();
    let shape: js_sys::Array = tensor.shape().iter().map(|&size| JsValue::from(size)).collect();
    Reflect::set(&object, &"dtype".into(), &dtype_name(tensor.scalar_type()).into())?;
    Reflect::set(&object, &"shape".into(), &shape)?;
    Reflect::set(&object, &"bytes".into(), &Uint8Array::from(tensor.bytes()))?;
    Ok(object.into())
}
