//! What there is to compute: each content once, and together what comes from the same rows.

use std::collections::HashMap;

use pteron_format::vulkan::{ConstantSource, DataType, Graph, Value};

use crate::blueprint::{Blueprint, Content, ScaleOrder};
use crate::decoder::{Decoder, Matrix, Weight};
use crate::error::{Error, Result};
use crate::quantise;
use crate::rotary::Wave;

/// Bytes that are computed together: one item, or several of the same 4-bit weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// A weight in 4-bit groups: its nibbles, where they are wanted, then its scales in each order that is wanted.
    FourBits { weight: Weight, group: u32, nibbles: bool, scales: Vec<ScaleOrder> },
    /// A weight as float32.
    Floats(Weight),
    /// Cosines or sines for so many positions.
    Rotary { wave: Wave, positions: u64 },
    /// So many zeros.
    Zeros(u64),
}

/// All jobs, in the order in which constants first need them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Jobs {
    pub(super) jobs: Vec<Job>,
    /// The lengths of the items that the jobs make, in order.
    pub(super) items: Vec<u64>,
    /// For each constant of the graph, its item.
    pub(super) item_of: Vec<usize>,
    /// How numbers that are not quantised are stored.
    pub(super) width: Width,
}

/// How numbers that are not quantised are stored: all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Half,
    Single,
}

impl Width {
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

/// Scales that lie group by group are filled up to whole vectors of four rows.
pub(super) fn padded_rows(rows: usize) -> usize {
    rows.next_multiple_of(4)
}

impl Jobs {
    pub(super) fn new(blueprint: &Blueprint, decoder: &Decoder) -> Result<Self> {
        let constants = &blueprint.graph.constants;
        if constants.len() != blueprint.contents.len() {
            let (constants, contents) = (constants.len(), blueprint.contents.len());
            return Err(Error::Blueprint(format!("{constants} constants, but {contents} contents")));
        }
        let width = Width::of(&blueprint.graph);
        let mut jobs = Vec::new();
        let mut job_of = HashMap::new();
        for (index, (&content, constant)) in blueprint.contents.iter().zip(constants).enumerate() {
            if !matches!(constant.source, ConstantSource::Named(_)) {
                return Err(Error::Blueprint(format!("constant {index} is not named")));
            }
            check(decoder, width, index, content, constant.len)?;
            let job = *job_of.entry(Origin::of(content, constant.len)).or_insert_with(|| {
                jobs.push(Job::new(content, constant.len / position_len(decoder, width), constant.len));
                jobs.len() - 1
            });
            jobs[job].want(content);
        }
        let mut items = Vec::new();
        let mut item_at = HashMap::new();
        for job in &jobs {
            for (content, len) in job.contents(decoder, width) {
                item_at.insert((content, len), items.len());
                items.push(len);
            }
        }
        let item = |(&content, len)| item_at[&(content, len)];
        let item_of = blueprint.contents.iter().zip(constants.iter().map(|constant| constant.len)).map(item).collect();
        Ok(Self { jobs, items, item_of, width })
    }
}

/// What decides whether contents are computed together.
#[derive(PartialEq, Eq, Hash)]
enum Origin {
    FourBits(Weight, u32),
    Other(Content, u64),
}

impl Origin {
    fn of(content: Content, len: u64) -> Self {
        match content {
            Content::Nibbles { weight, group } | Content::Scales { weight, group, .. } => Self::FourBits(weight, group),
            other => Self::Other(other, len),
        }
    }
}

impl Job {
    fn new(content: Content, positions: u64, len: u64) -> Self {
        match content {
            Content::Nibbles { weight, group } | Content::Scales { weight, group, .. } => {
                Self::FourBits { weight, group, nibbles: false, scales: Vec::new() }
            }
            Content::Floats(weight) => Self::Floats(weight),
            Content::Cosines => Self::Rotary { wave: Wave::Cosine, positions },
            Content::Sines => Self::Rotary { wave: Wave::Sine, positions },
            Content::Zeros => Self::Zeros(len),
        }
    }

    /// Adds a content to what comes of this job.
    fn want(&mut self, content: Content) {
        let Self::FourBits { nibbles, scales, .. } = self else { return };
        match content {
            Content::Scales { order, .. } if !scales.contains(&order) => scales.push(order),
            Content::Scales { .. } => {}
            _ => *nibbles = true,
        }
    }

    /// What comes of it, in order, with lengths in bytes.
    fn contents(&self, decoder: &Decoder, width: Width) -> Vec<(Content, u64)> {
        let sized = |content| (content, byte_len(decoder, width, content, 0));
        match *self {
            Self::FourBits { weight, group, nibbles, ref scales } => {
                let first = nibbles.then_some(Content::Nibbles { weight, group });
                let others = scales.iter().map(|&order| Content::Scales { weight, group, order });
                first.into_iter().chain(others).map(sized).collect()
            }
            Self::Floats(weight) => vec![sized(Content::Floats(weight))],
            Self::Rotary { wave, positions } => {
                let content = if wave == Wave::Cosine { Content::Cosines } else { Content::Sines };
                vec![(content, positions * position_len(decoder, width))]
            }
            Self::Zeros(len) => vec![(Content::Zeros, len)],
        }
    }
}

/// Bytes of the cosines or sines of one position.
fn position_len(decoder: &Decoder, width: Width) -> u64 {
    u64::from((decoder.head_width / 2).max(1)) * width.bytes()
}

/// How long a content is, in a constant of `given` bytes: tables may have any number of positions, and zeros any length.
fn byte_len(decoder: &Decoder, width: Width, content: Content, given: u64) -> u64 {
    let count = |weight| decoder.matrix(weight).count();
    match content {
        Content::Nibbles { weight, .. } => count(weight) / 2,
        Content::Scales { weight, group, order } => {
            let Matrix { rows, columns } = decoder.matrix(weight);
            let rows = if order == ScaleOrder::GroupsFirst { padded_rows(rows as usize) } else { rows as usize };
            (rows as u64).saturating_mul((columns / group.max(1)).into()).saturating_mul(width.bytes())
        }
        Content::Floats(weight) => count(weight).saturating_mul(width.bytes()),
        Content::Cosines | Content::Sines => given / position_len(decoder, width) * position_len(decoder, width),
        Content::Zeros => given,
    }
}

fn check(decoder: &Decoder, width: Width, index: usize, content: Content, len: u64) -> Result<()> {
    if let Content::Nibbles { weight, group } | Content::Scales { weight, group, .. } = content {
        check_group(weight, decoder.matrix(weight), group)?;
    }
    match byte_len(decoder, width, content, len) {
        expected if expected == len => Ok(()),
        expected => Err(Error::Blueprint(format!("constant {index} ({content:?}) has {len} bytes, expected {expected}"))),
    }
}

fn check_group(weight: Weight, matrix: Matrix, group: u32) -> Result<()> {
    let Matrix { columns, .. } = matrix;
    if quantise::fits(columns as usize, group as usize) {
        return Ok(());
    }
    Err(Error::Option(format!(
        "groups of {group} do not fit {weight}: its rows have {columns} numbers, and groups are multiples of 8"
    )))
}
