//! The work of a conversion: distinct constants, grouped by the weight they are computed from.

use std::collections::HashMap;

use pteron_format::vulkan::{ConstantSource, DataType, Graph, Value};

use crate::config::{MatrixShape, ModelConfig, Weight};
use crate::error::{Error, Result};
use crate::quantise;
use crate::rope::Wave;
use crate::template::{ConstantData, ProgramTemplate, ScaleOrder};

/// Constants that are computed together: one item, or several of the same 4-bit weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// A weight in 4-bit groups: its nibbles if requested, its scales in each requested order, then the sums of its groups if
    /// requested.
    Int4 { weight: Weight, group: u32, nibbles: bool, scales: Vec<ScaleOrder>, sums: bool },
    /// A weight as float32.
    Floats(Weight),
    /// A RoPE table.
    RopeTable { wave: Wave, positions: u64 },
    /// Zeros, by their number.
    Zeros(u64),
}

/// All jobs, in the order of their first use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Jobs {
    pub(super) jobs: Vec<Job>,
    /// The lengths of the items that the jobs produce, in order.
    pub(super) items: Vec<u64>,
    /// For each constant of the graph, its item.
    pub(super) item_of: Vec<usize>,
    /// The size of floats.
    pub(super) width: FloatWidth,
}

/// The size of floats, the same for all constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FloatWidth {
    Half,
    Single,
}

impl FloatWidth {
    fn of(graph: &Graph) -> Self {
        let constants = graph.values.iter().filter_map(Value::as_tensor).filter(|tensor| tensor.constant.is_some());
        if constants.into_iter().any(|tensor| tensor.dtype == DataType::Float16) { Self::Half } else { Self::Single }
    }

    /// Bytes of a number.
    fn bytes(self) -> u64 {
        match self {
            Self::Half => 2,
            Self::Single => 4,
        }
    }
}

/// Pads the rows of group-major scales to a multiple of four.
pub(super) fn padded_rows(rows: usize) -> usize {
    rows.next_multiple_of(4)
}

impl Jobs {
    pub(super) fn new(template: &ProgramTemplate, config: &ModelConfig) -> Result<Self> {
        let constants = &template.graph.constants;
        if constants.len() != template.constant_data.len() {
            let (constants, constant_data) = (constants.len(), template.constant_data.len());
            return Err(Error::Template(format!("{constants} constants, but contents for {constant_data}")));
        }
        let width = FloatWidth::of(&template.graph);
        let mut jobs = Vec::new();
        let mut job_of = HashMap::new();
        for (index, (&content, constant)) in template.constant_data.iter().zip(constants).enumerate() {
            if !matches!(constant.source, ConstantSource::Named(_)) {
                return Err(Error::Template(format!("constant {index} is not named")));
            }
            check(config, width, index, content, constant.len)?;
            let job = *job_of.entry(Origin::of(content, constant.len)).or_insert_with(|| {
                jobs.push(Job::new(content, constant.len / position_len(config, width), constant.len));
                jobs.len() - 1
            });
            jobs[job].want(content);
        }
        let mut items = Vec::new();
        let mut item_at = HashMap::new();
        for job in &jobs {
            for (content, len) in job.constant_data(config, width) {
                item_at.insert((content, len), items.len());
                items.push(len);
            }
        }
        let item = |(&content, len)| item_at[&(content, len)];
        let item_of = template.constant_data.iter().zip(constants.iter().map(|constant| constant.len)).map(item).collect();
        Ok(Self { jobs, items, item_of, width })
    }
}

/// Constants with the same origin are computed together.
#[derive(PartialEq, Eq, Hash)]
enum Origin {
    Int4(Weight, u32),
    Other(ConstantData, u64),
}

impl Origin {
    fn of(content: ConstantData, len: u64) -> Self {
        match content {
            ConstantData::Int4 { weight, group }
            | ConstantData::Scales { weight, group, .. }
            | ConstantData::Sums { weight, group } => Self::Int4(weight, group),
            other => Self::Other(other, len),
        }
    }
}

impl Job {
    fn new(content: ConstantData, positions: u64, len: u64) -> Self {
        match content {
            ConstantData::Int4 { weight, group }
            | ConstantData::Scales { weight, group, .. }
            | ConstantData::Sums { weight, group } => {
                Self::Int4 { weight, group, nibbles: false, scales: Vec::new(), sums: false }
            }
            ConstantData::Float(weight) => Self::Floats(weight),
            ConstantData::RopeCos => Self::RopeTable { wave: Wave::Cosine, positions },
            ConstantData::RopeSin => Self::RopeTable { wave: Wave::Sine, positions },
            ConstantData::Zeros => Self::Zeros(len),
        }
    }

    /// Adds a constant to this job.
    fn want(&mut self, content: ConstantData) {
        let Self::Int4 { nibbles, scales, sums, .. } = self else { return };
        match content {
            ConstantData::Scales { order, .. } if !scales.contains(&order) => scales.push(order),
            ConstantData::Scales { .. } => {}
            ConstantData::Sums { .. } => *sums = true,
            _ => *nibbles = true,
        }
    }

    /// Returns the constants it produces, in order, with lengths in bytes.
    fn constant_data(&self, config: &ModelConfig, width: FloatWidth) -> Vec<(ConstantData, u64)> {
        let sized = |content| (content, byte_len(config, width, content, 0));
        match *self {
            Self::Int4 { weight, group, nibbles, ref scales, sums } => {
                let first = nibbles.then_some(ConstantData::Int4 { weight, group });
                let others = scales.iter().map(|&order| ConstantData::Scales { weight, group, order });
                let sums = sums.then_some(ConstantData::Sums { weight, group });
                first.into_iter().chain(others).chain(sums).map(sized).collect()
            }
            Self::Floats(weight) => vec![sized(ConstantData::Float(weight))],
            Self::RopeTable { wave, positions } => {
                let content = if wave == Wave::Cosine { ConstantData::RopeCos } else { ConstantData::RopeSin };
                vec![(content, positions * position_len(config, width))]
            }
            Self::Zeros(len) => vec![(ConstantData::Zeros, len)],
        }
    }
}

/// Bytes of a row of a RoPE table.
fn position_len(config: &ModelConfig, width: FloatWidth) -> u64 {
    u64::from((config.head_dim / 2).max(1)) * width.bytes()
}

/// Returns the length of a constant. `given` is its length in the graph: tables may have any number of rows, and zeros any length.
fn byte_len(config: &ModelConfig, width: FloatWidth, content: ConstantData, given: u64) -> u64 {
    let count = |weight| config.shape(weight).count();
    match content {
        ConstantData::Int4 { weight, .. } => count(weight) / 2,
        ConstantData::Scales { weight, group, order } => {
            let MatrixShape { rows, columns } = config.shape(weight);
            let rows = if order == ScaleOrder::GroupMajor { padded_rows(rows as usize) } else { rows as usize };
            (rows as u64).saturating_mul((columns / group.max(1)).into()).saturating_mul(width.bytes())
        }
        ConstantData::Sums { weight, group } => {
            let MatrixShape { rows, columns } = config.shape(weight);
            (padded_rows(rows as usize) as u64).saturating_mul((columns / group.max(1)).into()).saturating_mul(4)
        }
        ConstantData::Float(weight) => count(weight).saturating_mul(width.bytes()),
        ConstantData::RopeCos | ConstantData::RopeSin => given / position_len(config, width) * position_len(config, width),
        ConstantData::Zeros => given,
    }
}

fn check(config: &ModelConfig, width: FloatWidth, index: usize, content: ConstantData, len: u64) -> Result<()> {
    if let ConstantData::Int4 { weight, group }
    | ConstantData::Scales { weight, group, .. }
    | ConstantData::Sums { weight, group } = content
    {
        check_group(weight, config.shape(weight), group)?;
    }
    match byte_len(config, width, content, len) {
        expected if expected == len => Ok(()),
        expected => Err(Error::Template(format!("constant {index} ({content:?}) has {len} bytes, expected {expected}"))),
    }
}

fn check_group(weight: Weight, matrix: MatrixShape, group: u32) -> Result<()> {
    let MatrixShape { columns, .. } = matrix;
    if quantise::fits(columns as usize, group as usize) {
        return Ok(());
    }
    Err(Error::InvalidOption(format!(
        "groups of {group} do not fit {weight}: its rows have {columns} numbers, and groups are multiples of 8"
    )))
}
