//! Products of two activation tensors: `aten.mm`, batched in `aten.bmm`, with an addend in `aten.addmm`, and with the first one transposed in
//! `et_vk.linear_dW`.

#[cfg(test)]
mod tests;
mod weight_gradient;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::live::TensorId;
use crate::matmul::batched::{self, MatrixDims, OperandLayout, Params};
use crate::matmul::{GEMV_MAX_ROWS, to_f32};
use crate::ops::{OpDef, names};
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors, broadcast_offset, indices};
use crate::shape::{Dims, broadcast};

/// How the arguments of one operator are called.
struct Arguments {
    /// The name of the left operand.
    a: &'static str,
    /// 2, or 3 with a batch; 0 for any number of dims, of which those before the matrix are broadcast.
    rank: usize,
    /// Whether an addend comes first, and `beta` and `alpha` after the operands.
    adds: bool,
}

const TABLE: &[(&str, Arguments)] = &[
    ("aten.mm.default", Arguments { a: "self", rank: 2, adds: false }),
    ("aten.bmm.default", Arguments { a: "self", rank: 3, adds: false }),
    ("aten.addmm.default", Arguments { a: "mat1", rank: 2, adds: true }),
    (MATMUL, Arguments { a: "self", rank: 0, adds: false }),
    (WEIGHT_GRADIENT, Arguments { a: "d_out", rank: 2, adds: false }),
];

/// The gradient of a linear with respect to its weights, `d_outᵀ · x`, of the rows of all leading dimensions.
const WEIGHT_GRADIENT: &str = "et_vk.linear_dW.default";

/// Products of batches of matrices, which are broadcast. Front ends call it; no file does.
pub(crate) const MATMUL: &str = "pteron.matmul";

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[MATMUL], kernels: &[&batched::GEMV, &batched::GEMM], decode };

#[derive(Debug)]
pub(crate) struct Mm {
    a: (&'static str, TensorId),
    b: TensorId,
    /// As in [`Arguments`].
    rank: usize,
    addend: Option<TensorId>,
    alpha: f64,
    beta: f64,
    out: TensorId,
    /// k and n, if the file fixes them.
    fixed: Option<(u32, u32)>,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let &(name, Arguments { a: a_name, rank, adds }) = args.row(TABLE);
    if name == WEIGHT_GRADIENT {
        return weight_gradient::decode(args);
    }
    let addend = if adds { Some(args.tensor_of("self", &[Elem::F32])?) } else { None };
    let a = args.tensor_of(a_name, &[Elem::F32])?;
    let b = args.tensor_of("mat2", &[Elem::F32])?;
    let (beta, alpha) = if adds { (args.float("beta")?, args.float("alpha")?) } else { (0.0, 1.0) };
    let out = args.output_of("out", Elem::F32)?;
    let matrix = MatrixDims::of(&args.info(b).bound).filter(|_| args.is_constant(b));
    let fixed = matrix.map(|matrix| (matrix.rows, matrix.columns));
    // With a beta of 0 the addend is ignored, even NaN.
    Ok(Box::new(Mm { a: (a_name, a), b, rank, addend: addend.filter(|_| beta != 0.0), alpha, beta, out, fixed }))
}

/// A product of rows with a matrix, and an addend.
pub(crate) struct RowsProduct {
    pub(crate) x: TensorId,
    pub(crate) b: TensorId,
    pub(crate) addend: Option<TensorId>,
    pub(crate) out: TensorId,
}

impl Mm {
    /// The product `x · b + addend`, if neither has another factor.
    pub(crate) fn of_rows(&self) -> Option<RowsProduct> {
        let &Self { a: (_, x), b, rank, addend, alpha, beta, out, .. } = self;
        let plain = alpha == 1.0 && (addend.is_none() || beta == 1.0);
        (rank == 2 && plain).then_some(RowsProduct { x, b, addend, out })
    }

    /// The operands and the result of a product of batches of matrices.
    pub(crate) fn of_batches(&self) -> Option<(TensorId, TensorId, TensorId)> {
        (self.rank != 2 && self.addend.is_none()).then_some((self.a.1, self.b, self.out))
    }

    /// Whether operands may have any rank, and batches of another size, which are broadcast.
    pub(crate) fn broadcasts(&self) -> bool {
        self.rank == 0
    }
}

/// Operands as they are, for so many rows that `mat2` is read repeatedly.
fn plain(k: u32, n: u32) -> OperandLayout {
    let wide_weight = n.is_multiple_of(4);
    OperandLayout { transposed: false, wide_x: wide_weight && k.is_multiple_of(4), wide_weight, few_rows: false }
}

/// Operands swapped, for few columns: the larger one is read along its rows.
fn exchanged(k: u32, n: u32) -> OperandLayout {
    let wide_weight = k.is_multiple_of(4);
    OperandLayout { transposed: true, wide_x: wide_weight && n == 1, wide_weight, few_rows: true }
}

impl Mm {
    /// The operand layouts for k and n, or for any if the file does not fix them.
    fn ways(&self) -> Vec<OperandLayout> {
        match self.fixed {
            Some((k, n)) if n > GEMV_MAX_ROWS => vec![plain(k, n)],
            Some((k, n)) => vec![plain(k, n), exchanged(k, n)],
            None => vec![plain(4, 4), plain(1, 4), plain(1, 1), exchanged(4, 1), exchanged(4, 2), exchanged(1, 1)],
        }
    }

    /// The dims of the output, and the product without the addend, for consistent shapes.
    fn product(&self, cx: &PlanCx<'_>) -> Result<(Dims, Params), OpError> {
        let (a_name, a) = self.a;
        let matrices = |name, tensor| {
            let dims = cx.dims(tensor);
            let matrices = MatrixDims::of(&dims).filter(|_| self.rank == 0 || dims.len() == self.rank);
            matrices.ok_or_else(|| OpError::new(name, format!("is {dims}, expected {} dimensions", self.rank.max(2))))
        };
        let (a, b) = (matrices(a_name, a)?, matrices("mat2", self.b)?);
        let batch = if self.rank == 0 { broadcast(&a.batch, &b.batch) } else { Some(a.batch).filter(|own| *own == b.batch) };
        let sizes = |batch: Dims| batch.iter().copied().chain([a.rows, b.columns]).map(i64::from).collect::<Vec<_>>();
        let Some((batch, out)) =
            batch.filter(|_| b.rows == a.columns).and_then(|batch| Some((batch, Dims::from_sizes(sizes(batch))?)))
        else {
            let (dims, with) = (cx.dims(self.b), cx.dims(self.a.1));
            return Err(OpError::new("mat2", format!("is {dims}, which cannot be multiplied with {with}")));
        };
        let params = Params {
            m: a.rows,
            n: b.columns,
            // As in PyTorch, factors of an alpha of 0 are ignored.
            k: if self.alpha == 0.0 { 0 } else { a.columns },
            x_row: a.columns,
            x_column: 1,
            x_strides: a.strides(&batch).unwrap_or_default(),
            weight_strides: b.strides(&batch).unwrap_or_default(),
            out_row: b.columns,
            out_column: 1,
            out_batch: a.rows.saturating_mul(b.columns),
            alpha: to_f32(self.alpha),
            ..batched::batches(&batch)
        };
        Ok((out, params))
    }

    /// The product with the addend.
    fn sum(&self, cx: &PlanCx<'_>) -> Result<(Dims, Params), OpError> {
        let (out, params) = self.product(cx)?;
        let Some(addend) = self.addend else { return Ok((out, params)) };
        let dims = cx.dims(addend);
        let strides = dims
            .broadcast_strides(&out)
            .ok_or_else(|| OpError::new("self", format!("is {dims}, which cannot be broadcast to the product's {out}")))?;
        let [addend_row, addend_column] = [strides[0], strides[1]];
        Ok((out, Params { has_addend: 1, addend_row, addend_column, beta: to_f32(self.beta), ..params }))
    }
}

impl Op for Mm {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let addend = self.addend.unwrap_or(self.b);
        let recipes = |way: &OperandLayout| {
            let (x, weight) = if way.transposed { (self.b, self.a.1) } else { (self.a.1, self.b) };
            way.recipes(&[x, weight, addend, self.out].map(Into::into))
        };
        Ok(Recipes::of(self.ways().iter().flat_map(recipes)))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (out, params) = self.sum(cx)?;
        let k = params.x_row;
        let (way, params) = if params.n <= GEMV_MAX_ROWS && params.m > GEMV_MAX_ROWS {
            (exchanged(k, params.n), params.transposed())
        } else {
            (plain(k, params.n), params)
        };
        Ok(Plan::new(self.out, out, way.dispatch(&self.ways(), params)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (out, params) = self.sum(cx)?;
        let [m, n, k, columns] = [params.m, params.n, params.k, params.x_row].map(|size| size as usize);
        let (a, b) = (tensors.f32(self.a.1), tensors.f32(self.b));
        let addend = self.addend.map(|addend| (cx.dims(addend), tensors.f32(addend)));
        let element = |(flat, index): (usize, Vec<u32>)| {
            let (row, column) = (flat / n % m, flat % n);
            let matrix = |tensor: TensorId, elements: usize| {
                let batch = MatrixDims::of(&cx.dims(tensor)).map_or(Dims::SCALAR, |matrices| matrices.batch);
                broadcast_offset(&batch, &index[..index.len() - 2]) * elements
            };
            let (x, y) = (matrix(self.a.1, m * columns), matrix(self.b, columns * n));
            let dot = |i: usize| f64::from(a[x + row * columns + i]) * f64::from(b[y + i * n + column]);
            let product = self.alpha * (0..k).map(dot).sum::<f64>();
            let added = |(dims, values): &(Dims, &[f32])| self.beta * f64::from(values[broadcast_offset(dims, &index)]);
            to_f32(product + addend.as_ref().map_or(0.0, added))
        };
        let data = indices(&out).enumerate().map(element).collect();
        tensors.set(self.out, out, HostData::F32(data));
        Ok(())
    }
}
