//! The operators of the family.

#[cfg(any(test, feature = "reference"))]
use super::reference;
use crate::reduction::reducer::{self, Reducer};

/// An operator.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) takes: Takes,
    pub(super) result: ResultKind,
    /// Whether a reduction of no elements has a result.
    pub(super) empty: bool,
    /// Whether the result is divided by the number of elements.
    pub(super) mean: bool,
    /// The reducers of floats and of integers.
    pub(super) floats: Option<&'static Reducer>,
    pub(super) integers: Option<&'static Reducer>,
    /// The reduction that is the second output of the operator.
    pub(super) second: Option<&'static Self>,
    /// The result for one row on the host, for tests, with the correction of its number of elements.
    #[cfg(any(test, feature = "reference"))]
    pub(super) host: fn(&[f64], f64) -> f64,
}

/// The arguments between `self` and `out`. Those with dimensions have `keepdim`, too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Takes {
    /// Nothing: all dimensions are reduced.
    Nothing,
    /// The result's dtype.
    Type,
    /// A list of dimensions.
    Dims,
    /// A list of dimensions, and the result's dtype.
    DimsAndType,
    /// A list of dimensions, and whether the divisor is one less than the number of elements.
    DimsAndBias,
    /// A list of dimensions, and a number that is subtracted from the divisor.
    DimsAndCorrection,
    /// One dimension.
    OneDim,
    /// One dimension, and the result's dtype.
    OneDimAndType,
}

impl Takes {
    /// Whether the second argument is a list of dimensions.
    pub(super) fn is_list(self) -> bool {
        matches!(self, Self::Dims | Self::DimsAndType | Self::DimsAndBias | Self::DimsAndCorrection)
    }
}

/// The element type of results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ResultKind {
    /// That of the tensor.
    Same,
    /// Indices.
    Index,
    /// Booleans.
    Truth,
    /// The declared one, in which the reduction computes.
    Declared,
}

const SUM: Row = Row {
    name: "aten.sum.dim_IntList",
    takes: Takes::DimsAndType,
    result: ResultKind::Declared,
    empty: true,
    mean: false,
    floats: Some(&reducer::SUM_F32),
    integers: Some(&reducer::SUM_I32),
    second: None,
    #[cfg(any(test, feature = "reference"))]
    host: |row, _| row.iter().sum(),
};
const MEAN: Row = Row {
    name: "aten.mean.dim",
    takes: Takes::DimsAndType,
    result: ResultKind::Declared,
    empty: true,
    mean: true,
    floats: Some(&reducer::SUM_F32),
    integers: None,
    second: None,
    #[cfg(any(test, feature = "reference"))]
    host: reference::mean,
};
const VAR: Row = Row {
    name: "aten.var.dim",
    takes: Takes::DimsAndBias,
    result: ResultKind::Declared,
    empty: true,
    mean: true,
    floats: Some(&reducer::VARIANCE),
    integers: None,
    second: None,
    #[cfg(any(test, feature = "reference"))]
    host: reference::variance,
};
const PROD: Row = Row {
    name: "aten.prod.dim_int",
    takes: Takes::OneDimAndType,
    result: ResultKind::Declared,
    empty: true,
    mean: false,
    floats: Some(&reducer::PROD_F32),
    integers: Some(&reducer::PROD_I32),
    second: None,
    #[cfg(any(test, feature = "reference"))]
    host: |row, _| row.iter().product(),
};
const AMAX: Row = Row {
    name: "aten.amax.default",
    takes: Takes::Dims,
    result: ResultKind::Same,
    empty: false,
    mean: false,
    floats: Some(&reducer::MAX_F32),
    integers: Some(&reducer::MAX_I32),
    second: None,
    #[cfg(any(test, feature = "reference"))]
    host: |row, _| row[reference::first(row, |x, best| x > best)],
};
const AMIN: Row = Row {
    name: "aten.amin.default",
    takes: Takes::Dims,
    result: ResultKind::Same,
    empty: false,
    mean: false,
    floats: Some(&reducer::MIN_F32),
    integers: Some(&reducer::MIN_I32),
    second: None,
    #[cfg(any(test, feature = "reference"))]
    host: |row, _| row[reference::first(row, |x, best| x < best)],
};
const ARGMAX: Row = Row {
    name: "aten.argmax.default",
    takes: Takes::OneDim,
    result: ResultKind::Index,
    empty: false,
    mean: false,
    floats: Some(&reducer::ARGMAX_F32),
    integers: Some(&reducer::ARGMAX_I32),
    second: None,
    #[cfg(any(test, feature = "reference"))]
    host: |row, _| reference::first(row, |x, best| x > best) as f64,
};
const ARGMIN: Row = Row {
    name: "aten.argmin.default",
    takes: Takes::OneDim,
    result: ResultKind::Index,
    empty: false,
    mean: false,
    floats: Some(&reducer::ARGMIN_F32),
    integers: Some(&reducer::ARGMIN_I32),
    second: None,
    #[cfg(any(test, feature = "reference"))]
    host: |row, _| reference::first(row, |x, best| x < best) as f64,
};
const ANY: Row = Row {
    name: "aten.any.dim",
    takes: Takes::OneDim,
    result: ResultKind::Truth,
    empty: true,
    mean: false,
    floats: Some(&reducer::ANY_F32),
    integers: Some(&reducer::ANY_I32),
    second: None,
    #[cfg(any(test, feature = "reference"))]
    host: |row, _| f64::from(u8::from(row.iter().any(|&x| x != 0.0))),
};
const ALL: Row = Row {
    name: "aten.all.dim",
    takes: Takes::OneDim,
    result: ResultKind::Truth,
    empty: true,
    mean: false,
    floats: Some(&reducer::ALL_F32),
    integers: Some(&reducer::ALL_I32),
    second: None,
    #[cfg(any(test, feature = "reference"))]
    host: |row, _| f64::from(u8::from(row.iter().all(|&x| x != 0.0))),
};

/// The operators.
pub(super) const TABLE: &[Row] = &[
    SUM,
    Row { name: "aten.sum.default", takes: Takes::Type, ..SUM },
    MEAN,
    Row { name: "aten.mean.default", takes: Takes::Type, ..MEAN },
    VAR,
    Row { name: "aten.var.correction", takes: Takes::DimsAndCorrection, ..VAR },
    Row { name: "aten.var_mean.correction", takes: Takes::DimsAndCorrection, second: Some(&MEAN), ..VAR },
    PROD,
    Row { name: "aten.prod.default", takes: Takes::Type, ..PROD },
    AMAX,
    AMIN,
    Row { name: "aten.max.default", takes: Takes::Nothing, ..AMAX },
    Row { name: "aten.min.default", takes: Takes::Nothing, ..AMIN },
    Row { name: "aten.max.dim", takes: Takes::OneDim, second: Some(&ARGMAX), ..AMAX },
    Row { name: "aten.min.dim", takes: Takes::OneDim, second: Some(&ARGMIN), ..AMIN },
    ARGMAX,
    ARGMIN,
    ANY,
    Row { name: "aten.any.default", takes: Takes::Nothing, ..ANY },
    Row { name: "aten.any.dims", takes: Takes::Dims, ..ANY },
    ALL,
    Row { name: "aten.all.default", takes: Takes::Nothing, ..ALL },
    Row { name: "aten.all.dims", takes: Takes::Dims, ..ALL },
];
