//! Functions of single elements, softmax, and conversions.

use pteron_format::xnnpack as file;

use super::{Rows, Translator, invalid};
use crate::error::Result;
use crate::ir::{DataType, ValueId};
use crate::ops::{choose_qparams, q8_elementwise};

impl Translator<'_> {
    pub(super) fn unary(
        &mut self,
        op: file::UnaryOp,
        input: file::ValueId,
        output: file::ValueId,
        range: Option<file::OutputRange>,
    ) -> Result<()> {
        match op {
            file::UnaryOp::Copy => {
                let value = self.value(input)?;
                self.compute("aten.alias_copy.default", &[value], output)
            }
            file::UnaryOp::Clamp if self.is_int8(input)? => {
                let value = self.value(input)?;
                let [low, high] = self.bounds_args(output, range)?;
                self.compute(q8_elementwise::CLAMP, &[value, low, high], output)
            }
            _ if self.is_int8(input)? => {
                let dims = self.dims(output)?;
                let (x, (name, args)) = (self.dequantised(input)?, self.function(op, range)?);
                let floats = self.floats(name, &with(x, op, &args), &dims)?;
                self.quantise(floats, output)
            }
            _ => {
                let (x, (name, args)) = (self.value(input)?, self.function(op, range)?);
                self.compute(name, &with(x, op, &args), output)
            }
        }
    }

    /// The operator of a function, and its arguments after the tensor.
    fn function(&mut self, op: file::UnaryOp, range: Option<file::OutputRange>) -> Result<(&'static str, Vec<ValueId>)> {
        use file::UnaryOp as Op;
        let number = |translator: &mut Self, value: f32| translator.builder.double(value.into());
        Ok(match op {
            Op::Abs => ("aten.abs.default", Vec::new()),
            Op::Ceiling => ("aten.ceil.default", Vec::new()),
            Op::Clamp => {
                let file::OutputRange { min, max } =
                    range.unwrap_or(file::OutputRange { min: f32::NEG_INFINITY, max: f32::INFINITY });
                ("aten.clamp.default", vec![number(self, min)?, number(self, max)?])
            }
            Op::Copy => ("aten.alias_copy.default", Vec::new()),
            Op::Cos => ("aten.cos.default", Vec::new()),
            Op::Elu { alpha } => {
                let one = number(self, 1.0)?;
                ("aten.elu.default", vec![number(self, alpha)?, one, one])
            }
            Op::Exp => ("aten.exp.default", Vec::new()),
            Op::Floor => ("aten.floor.default", Vec::new()),
            Op::Gelu => ("aten.gelu.default", vec![self.builder.text("none")?]),
            Op::HardSwish => ("aten.hardswish.default", Vec::new()),
            Op::LeakyRelu { slope } => ("aten.leaky_relu.default", vec![number(self, slope)?]),
            Op::Log => ("aten.log.default", Vec::new()),
            Op::Negate => ("aten.neg.default", Vec::new()),
            Op::ReciprocalSquareRoot => ("aten.rsqrt.default", Vec::new()),
            Op::Sigmoid => ("aten.sigmoid.default", Vec::new()),
            Op::Sin => ("aten.sin.default", Vec::new()),
            Op::Square => ("aten.mul.Tensor", Vec::new()),
            Op::SquareRoot => ("aten.sqrt.default", Vec::new()),
            Op::Tanh => ("aten.tanh.default", Vec::new()),
        })
    }

    pub(super) fn binary(
        &mut self,
        op: file::BinaryOp,
        inputs: [file::ValueId; 2],
        output: file::ValueId,
        range: Option<file::OutputRange>,
    ) -> Result<()> {
        use file::BinaryOp as Op;
        let int8 = self.is_int8(inputs[0])?;
        if int8 && matches!(op, Op::Add | Op::Subtract | Op::Multiply) {
            let mut args = vec![self.value(inputs[0])?, self.value(inputs[1])?];
            args.extend(self.quantised_args(&[inputs[0], inputs[1], output])?);
            if op != Op::Multiply {
                args.push(self.builder.bool(op == Op::Subtract)?);
            }
            args.extend(self.bounds_args(output, range)?);
            let name = if op == Op::Multiply { q8_elementwise::MUL } else { q8_elementwise::ADD };
            return self.compute(name, &args, output);
        }
        let mut args = vec![self.dequantised(inputs[0])?, self.dequantised(inputs[1])?];
        if matches!(op, Op::Add | Op::Subtract) {
            args.push(self.builder.int(1)?);
        }
        let name = match op {
            Op::Add => "aten.add.Tensor",
            Op::Divide => "aten.div.Tensor",
            Op::Maximum => "aten.maximum.default",
            Op::Minimum => "aten.minimum.default",
            Op::Multiply => "aten.mul.Tensor",
            Op::PRelu => q8_elementwise::PRELU,
            Op::Subtract => "aten.sub.Tensor",
        };
        if !int8 {
            return self.finish(name, &args, output, range);
        }
        let dims = self.dims(output)?;
        let floats = self.floats(name, &args, &dims)?;
        self.quantise(floats, output)
    }

    pub(super) fn softmax(&mut self, input: file::ValueId, output: file::ValueId) -> Result<()> {
        let (x, dims) = (self.dequantised(input)?, self.dims(output)?);
        let args = [x, self.builder.int(-1)?, self.builder.bool(false)?];
        if !self.is_int8(output)? {
            return self.compute("aten._softmax.default", &args, output);
        }
        let floats = self.floats("aten._softmax.default", &args, &dims)?;
        self.quantise(floats, output)
    }

    pub(super) fn convert(&mut self, input: file::ValueId, output: file::ValueId) -> Result<()> {
        use file::DataType as Type;
        match (self.dtype(input)?, self.dtype(output)?) {
            (_, Type::QdInt8) => self.quantise_rows(input, output),
            (Type::QInt8, Type::QInt8) if self.quantised(input)? == self.quantised(output)? => {
                let value = self.value(input)?;
                self.compute("aten.alias_copy.default", &[value], output)
            }
            (Type::QInt8, Type::QInt8) => {
                let mut args = vec![self.value(input)?];
                args.extend(self.quantised_args(&[input, output])?);
                self.compute(q8_elementwise::REQUANTISE, &args, output)
            }
            (_, Type::QInt8) => {
                let floats = self.value(input)?;
                self.quantise(floats, output)
            }
            (Type::QInt8, _) => {
                let floats = self.dequantised(input)?;
                self.set(output, floats);
                Ok(())
            }
            _ => {
                // All floats are 32 bits on the GPU.
                let value = self.value(input)?;
                self.compute("aten.alias_copy.default", &[value], output)
            }
        }
    }

    /// Finds how rows are quantised; operators that read them quantise the floats themselves.
    fn quantise_rows(&mut self, input: file::ValueId, output: file::ValueId) -> Result<()> {
        let Some(file::Quantization::PerToken { row_dims }) = self.file_value(output)?.quantization else {
            return Err(invalid(format!("quantises value {output}, but not by rows")));
        };
        let source = self.value(input)?;
        let rows = self.rows_of(source, &self.dims(input)?, row_dims)?;
        self.dynamic.insert(output, rows);
        Ok(())
    }

    /// Rows of so many inner dims of floats.
    pub(super) fn rows_of(&mut self, source: ValueId, dims: &[u32], row_dims: u32) -> Result<Rows> {
        let mut dims = dims.to_vec();
        dims.iter_mut().rev().take(row_dims as usize).for_each(|dim| *dim = 1);
        let multipliers = self.builder.tensor(DataType::Float32, &dims)?;
        let zero_points = self.builder.tensor(DataType::Int8, &dims)?;
        let inner = self.builder.int(row_dims.into())?;
        self.builder.call(choose_qparams::MULTIPLIERS, &[source, inner, multipliers, zero_points])?;
        Ok(Rows { source, multipliers, zero_points })
    }
}

/// The arguments of a function: the tensor, twice if it is multiplied by itself, and others.
fn with(x: ValueId, op: file::UnaryOp, more: &[ValueId]) -> Vec<ValueId> {
    let again = (op == file::UnaryOp::Square).then_some(x);
    [x].into_iter().chain(again).chain(more.iter().copied()).collect()
}
