//! Translates the graph of an XNNPACK delegate.
//!
//! The graph is translated literally, images with channels last included: convolutions, pools and resizing become operators that take
//! them so. Numbers are XNNPACK's own: integers of static int8 networks are exact, and activations that it quantises when the graph runs
//! are quantised by its rule, which fused linears apply in the kernel that multiplies them.

mod constants;
mod convolution;
mod elementwise;
mod image;
mod linear;
mod quantised;
mod shape;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;

use pteron_format::xnnpack as file;

use self::quantised::Quantised;
use super::Builder;
use crate::error::{Error, Result};
use crate::ir::{DataType, ValueId};

/// Translates a delegate's graph into a builder.
///
/// `ports` has a value for each argument of the delegate call that is a tensor: `ports[external.index]` is the tensor that
/// the graph reads there, with its dims in memory order and at least one of them; `None` for integers and outputs. The
/// builder knows the delegate ([`Builder::delegate_constant`]).
///
/// Returns the tensor of each output with its index among the arguments. Node kinds that are not supported are recorded
/// ([`Builder::unsupported`]) and the translation goes on, so that a user sees all of them.
///
/// # Errors
/// More values and calls than the source justifies, or a graph whose values cannot be translated.
pub fn translate(graph: &file::Graph, ports: &[Option<ValueId>], builder: &mut Builder) -> Result<Vec<(usize, ValueId)>> {
    let mut translator = Translator {
        graph,
        builder,
        values: vec![None; graph.values.len()],
        dynamic: HashMap::new(),
        scales: HashMap::new(),
    };
    translator.bind(ports)?;
    for node in &graph.nodes {
        translator.node(node)?;
    }
    let outputs = graph.externals().filter(|(_, external)| external.output);
    outputs.map(|(id, external)| Ok((external.index as usize, translator.value(id)?))).collect()
}

/// The state of a translation.
struct Translator<'a> {
    graph: &'a file::Graph,
    builder: &'a mut Builder,
    /// The tensor of each value of the delegate, once it is bound or computed.
    values: Vec<Option<ValueId>>,
    /// The rows of values that are quantised when the graph runs.
    dynamic: HashMap<file::ValueId, Rows>,
    /// The scales of constants, one per channel or group.
    scales: HashMap<file::ValueId, ValueId>,
}

/// Rows of floats that the graph quantises to 8 bits, with their parameters.
#[derive(Clone, Copy, Debug)]
struct Rows {
    /// The floats.
    source: ValueId,
    /// A multiplier and a zero point per row.
    multipliers: ValueId,
    zero_points: ValueId,
}

impl Translator<'_> {
    /// Binds external inputs to the tensors of the call.
    fn bind(&mut self, ports: &[Option<ValueId>]) -> Result<()> {
        for (id, external) in self.graph.externals().filter(|(_, external)| !external.output) {
            let port = ports.get(external.index as usize).copied().flatten();
            let Some(tensor) = port.and_then(|port| Some((port, self.builder.tensor_at(port)?))) else {
                return Err(invalid(format!("reads argument {} of its call, which is no tensor", external.index)));
            };
            let (expected, found) = (self.file_value(id)?.dims.len(), tensor.1.dims.len());
            if expected != found {
                let reason = format!("reads argument {} with {expected} dims, but it has {found}", external.index);
                return Err(invalid(reason));
            }
            self.values[id.index()] = Some(tensor.0);
        }
        Ok(())
    }

    fn node(&mut self, node: &file::Node) -> Result<()> {
        use file::NodeKind as Kind;
        let unsigned = |id: file::ValueId| self.graph.value(id).is_some_and(|it| it.dtype == file::DataType::QUInt8);
        if node.kind.inputs().chain(node.kind.outputs()).any(unsigned) {
            return self.refuse(node, "of unsigned bytes");
        }
        let range = node.output_range;
        match &node.kind {
            Kind::Unary { op, input, output } => self.unary(*op, *input, *output, range),
            Kind::Binary { op, inputs, output } => self.binary(*op, *inputs, *output, range),
            Kind::Softmax { input, output } => self.softmax(*input, *output),
            Kind::Convert { input, output } => self.convert(*input, *output),
            Kind::FullyConnected { .. } => self.fully_connected(node),
            Kind::Convolution(convolution) => self.convolution(node, convolution),
            Kind::BatchMatrixMultiply { inputs, output, transposed_second } => {
                self.matmul(*inputs, *output, *transposed_second)
            }
            Kind::Pool { .. } => self.pool(node),
            Kind::GlobalAveragePool { input, output } => self.global_average(*input, *output),
            Kind::ArgMaxPool { .. } => self.argmax_pool(node),
            Kind::Concatenate { axis, inputs, output } => self.concatenate(*axis, inputs, *output),
            Kind::Transpose { permutation, input, output } => self.transpose(permutation, *input, *output),
            Kind::Reshape { dims, input, output } => self.reshape(dims, *input, *output),
            Kind::Slice { offsets, sizes, input, output } => self.slice([offsets, sizes], *input, *output),
            Kind::Pad { before, after, value, input, output } => self.pad([before, after], *value, *input, *output),
            Kind::ResizeBilinear { size, align_corners, input, output } => {
                self.resize(*size, *align_corners, *input, *output)
            }
        }
    }

    /// Records a node that is not supported. Its outputs become tensors that nothing computes, so that others can still be translated.
    fn refuse(&mut self, node: &file::Node, why: &str) -> Result<()> {
        self.builder.unsupported(&format!("XNNPACK {} {why}", node.kind.name()));
        for output in node.kind.outputs() {
            let tensor = self.output_tensor(output)?;
            self.set(output, tensor);
        }
        Ok(())
    }

    fn file_value(&self, id: file::ValueId) -> Result<&file::Value> {
        self.graph.value(id).ok_or_else(|| invalid(format!("refers to value {id}, which it does not have")))
    }

    /// The tensor of a value: bound, computed, or a constant.
    fn value(&mut self, id: file::ValueId) -> Result<ValueId> {
        if let Some(value) = self.values.get(id.index()).copied().flatten() {
            return Ok(value);
        }
        let file = self.file_value(id)?;
        if file.constant.is_none() {
            return Err(invalid(format!("reads value {id} before a node writes it")));
        }
        let (dtype, dims) = (data_type(file.dtype), file.dims.clone());
        let value = self.constant(id, dtype, &dims)?;
        self.set(id, value);
        Ok(value)
    }

    /// The number of a value's dims, and their bounds.
    fn dims(&self, id: file::ValueId) -> Result<Vec<u32>> {
        Ok(self.file_value(id)?.dims.clone())
    }

    fn dtype(&self, id: file::ValueId) -> Result<file::DataType> {
        Ok(self.file_value(id)?.dtype)
    }

    fn set(&mut self, id: file::ValueId, value: ValueId) {
        if let Some(slot) = self.values.get_mut(id.index()) {
            *slot = Some(value);
        }
    }

    /// Adds the tensor that a node writes.
    fn output_tensor(&mut self, id: file::ValueId) -> Result<ValueId> {
        let file = self.file_value(id)?;
        let (dtype, dims) = (data_type(file.dtype), file.dims.clone());
        self.builder.tensor(dtype, &dims)
    }

    /// Adds the call of which a value is the only output.
    fn compute(&mut self, name: &str, args: &[ValueId], output: file::ValueId) -> Result<()> {
        let out = self.output_tensor(output)?;
        self.builder.call(name, &[args, &[out]].concat())?;
        self.set(output, out);
        Ok(())
    }

    /// Adds a call with a new tensor of floats.
    fn floats(&mut self, name: &str, args: &[ValueId], dims: &[u32]) -> Result<ValueId> {
        self.builder.compute(name, args, DataType::Float32, dims)
    }

    /// Adds the last call of a chain of floats: its result is a value, within bounds if there are any.
    fn finish(
        &mut self,
        name: &str,
        args: &[ValueId],
        output: file::ValueId,
        range: Option<file::OutputRange>,
    ) -> Result<()> {
        let Some(file::OutputRange { min, max }) = range else { return self.compute(name, args, output) };
        let dims = self.dims(output)?;
        let unbounded = self.floats(name, args, &dims)?;
        let bounds = [min, max].map(|bound| self.builder.double(bound.into()));
        let [min, max] = bounds;
        self.compute("aten.clamp.default", &[unbounded, min?, max?], output)
    }

    /// The scale and the zero point of a value with one pair.
    fn quantised(&self, id: file::ValueId) -> Result<Quantised> {
        match self.file_value(id)?.quantization {
            Some(file::Quantization::PerTensor { scale, zero_point }) => Ok(Quantised { scale, zero_point }),
            _ => Err(invalid(format!("has value {id} without a scale for all of it"))),
        }
    }

    /// The scale and the zero point of values, by turns, as arguments.
    fn quantised_args(&mut self, ids: &[file::ValueId]) -> Result<Vec<ValueId>> {
        let mut args = Vec::with_capacity(2 * ids.len());
        for &id in ids {
            let Quantised { scale, zero_point } = self.quantised(id)?;
            args.push(self.builder.double(scale.into())?);
            args.push(self.builder.int(zero_point.into())?);
        }
        Ok(args)
    }

    /// The least and the largest integer of a value, as arguments.
    fn bounds_args(&mut self, id: file::ValueId, range: Option<file::OutputRange>) -> Result<[ValueId; 2]> {
        let [low, high] = self.quantised(id)?.bounds(range);
        Ok([self.builder.int(low.into())?, self.builder.int(high.into())?])
    }

    fn is_int8(&self, id: file::ValueId) -> Result<bool> {
        Ok(self.dtype(id)? == file::DataType::QInt8)
    }

    /// The floats of a value: itself, or its integers dequantised.
    fn dequantised(&mut self, id: file::ValueId) -> Result<ValueId> {
        let value = self.value(id)?;
        if !self.is_int8(id)? {
            return Ok(value);
        }
        let dims = self.dims(id)?;
        let mut args = vec![value];
        args.extend(self.quantised_args(&[id])?);
        args.extend(self.byte_range()?);
        let none = self.builder.null()?;
        args.extend([none, none]);
        self.floats("quantized_decomposed.dequantize_per_tensor.default", &args, &dims)
    }

    /// Sets a value to floats, which are quantised if it holds integers.
    fn quantise(&mut self, floats: ValueId, output: file::ValueId) -> Result<()> {
        if !self.is_int8(output)? {
            self.set(output, floats);
            return Ok(());
        }
        let mut args = vec![floats];
        args.extend(self.quantised_args(&[output])?);
        args.extend(self.byte_range()?);
        args.push(self.builder.null()?);
        self.compute("quantized_decomposed.quantize_per_tensor.default", &args, output)
    }

    fn byte_range(&mut self) -> Result<[ValueId; 2]> {
        Ok([self.builder.int(i8::MIN.into())?, self.builder.int(i8::MAX.into())?])
    }

    /// Adds a cast to another element type.
    fn cast(&mut self, value: ValueId, to: DataType, dims: &[u32]) -> Result<ValueId> {
        let none = self.builder.null()?;
        let args = [[value].as_slice(), &[none; 6]].concat();
        self.builder.compute("aten._to_copy.default", &args, to, dims)
    }

    /// Adds a permutation of dims.
    fn permuted(&mut self, value: ValueId, dtype: DataType, dims: &[u32], order: &[usize]) -> Result<(ValueId, Vec<u32>)> {
        let dims: Vec<u32> = order.iter().filter_map(|&axis| dims.get(axis).copied()).collect();
        let order: Vec<i64> = order.iter().map(|&axis| i64::try_from(axis).unwrap_or(i64::MAX)).collect();
        let order = self.builder.ints(&order)?;
        let out = self.builder.compute("aten.permute_copy.default", &[value, order], dtype, &dims)?;
        Ok((out, dims))
    }
}

/// The orders of dims from channels last to channels first, and back.
const CHANNELS_FIRST: [usize; 4] = [0, 3, 1, 2];
const CHANNELS_LAST: [usize; 4] = [0, 2, 3, 1];

/// The element type of a value in the graph IR, where scales are arguments of operators.
fn data_type(dtype: file::DataType) -> DataType {
    match dtype {
        file::DataType::Float32 => DataType::Float32,
        file::DataType::Float16 => DataType::Float16,
        file::DataType::BFloat16 => DataType::BFloat16,
        file::DataType::QInt8 | file::DataType::QcInt8 | file::DataType::QdInt8 => DataType::Int8,
        file::DataType::QUInt8 => DataType::UInt8,
        file::DataType::QcInt4 | file::DataType::QbInt4 => DataType::UInt8,
        file::DataType::QInt32 | file::DataType::QcInt32 | file::DataType::Int32 => DataType::Int32,
    }
}

/// An error in a delegate's graph that its reader does not look for.
fn invalid(reason: String) -> Error {
    Error::Misuse(format!("the graph of an XNNPACK delegate {reason}"))
}
