//! Computes the bytes of constants, block by block, rows in parallel.

use std::ops::{ControlFlow, Range};
use std::sync::mpsc::SyncSender;

use rayon::prelude::*;

use super::Progress;
use super::jobs::{FloatWidth, Job, Jobs, padded_rows};
use super::report::Measured;
use super::sink::Chunk;
use crate::config::Weight;
use crate::error::{Error, Result};
use crate::quantise::{self, NotFinite, QuantisationError, ScaleMethod};
use crate::rope::{RopeTable, Wave};
use crate::source::Source;
use crate::template::{ScaleOrder, WeightFormat};

/// The approximate size of a block. The caller can interrupt between blocks.
const BLOCK: usize = 4 << 20;
/// The fewest rows per task: short rows are cheap.
const ROWS_AT_ONCE: usize = 16;

/// Computes the chunks of all items, in order.
pub(super) struct Producer<'a> {
    source: &'a dyn Source,
    scales: ScaleMethod,
    jobs: &'a [Job],
    width: FloatWidth,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    done: u64,
    total: u64,
}

impl<'a> Producer<'a> {
    pub(super) fn new(
        source: &'a dyn Source,
        scales: ScaleMethod,
        jobs: &'a Jobs,
        progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Self {
        Self { source, scales, jobs: &jobs.jobs, width: jobs.width, progress, done: 0, total: jobs.items.iter().sum() }
    }

    /// Sends all chunks. Returns the quantisation error of each weight.
    pub(super) fn run(mut self, chunks: SyncSender<Chunk>) -> Result<Vec<Measured>> {
        let mut measured = Vec::new();
        for job in self.jobs {
            match *job {
                Job::Int4 { weight, group, nibbles, ref scales, sums } => {
                    measured.push(self.int4(&chunks, (weight, group), nibbles, scales, sums)?);
                }
                Job::Floats(weight) => measured.push(self.floats(&chunks, weight)?),
                Job::RopeTable { wave, positions } => self.rotary(&chunks, wave, positions)?,
                Job::Zeros(len) => self.zeros(&chunks, len)?,
            }
        }
        Ok(measured)
    }

    /// Sends floats in the program's precision.
    fn send_numbers(
        &mut self,
        chunks: &SyncSender<Chunk>,
        weight: Option<Weight>,
        bytes: Vec<u8>,
        last: bool,
    ) -> Result<()> {
        let bytes = match self.width {
            FloatWidth::Single => bytes,
            FloatWidth::Half => {
                let numbers = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
                numbers.flat_map(|number| half::f16::from_f32(number).to_le_bytes()).collect()
            }
        };
        self.send(chunks, weight, bytes, last)
    }

    fn send(&mut self, chunks: &SyncSender<Chunk>, weight: Option<Weight>, bytes: Vec<u8>, last: bool) -> Result<()> {
        self.done += bytes.len() as u64;
        let sent = chunks.send(Chunk { bytes, last }).is_ok();
        let progress = Progress { done: self.done, total: self.total, weight };
        // If the writer closed the channel, its own error is reported.
        if sent && (self.progress)(progress).is_continue() { Ok(()) } else { Err(Error::Interrupted) }
    }

    /// Quantises a weight. Holds all of its scales, since their order can differ from that of the rows.
    fn int4(
        &mut self,
        chunks: &SyncSender<Chunk>,
        (weight, group): (Weight, u32),
        nibbles: bool,
        orders: &[ScaleOrder],
        with_sums: bool,
    ) -> Result<Measured> {
        let matrix = self.source.config().shape(weight);
        let (columns, groups) = (matrix.columns as usize, (matrix.columns / group) as usize);
        let mut scales = vec![0.0; matrix.rows as usize * groups];
        let mut sums = vec![0; if with_sums { scales.len() } else { 0 }];
        let mut deviation = QuantisationError::default();
        let rows = Int4Rows { source: self.source, how: self.scales, weight, group };
        for block in blocks(matrix.rows as usize, columns / 2) {
            let mut bytes = vec![0; block.len() * columns / 2];
            let scales = &mut scales[block.start * groups..block.end * groups];
            deviation = deviation.merge(rows.compute(block.start, columns, &mut bytes, scales)?);
            if with_sums {
                let groups = bytes.chunks_exact(group as usize / 2).zip(&mut sums[block.start * groups..block.end * groups]);
                groups.for_each(|(bytes, sum)| *sum = sum_of(bytes));
            }
            if nibbles {
                self.send(chunks, Some(weight), bytes, block.end == matrix.rows as usize)?;
            }
        }
        for order in orders {
            match order {
                ScaleOrder::RowMajor => self.scales_as_they_are(chunks, weight, &scales)?,
                ScaleOrder::GroupMajor => self.by_group(chunks, weight, &scales, groups, Self::send_numbers)?,
            }
        }
        if with_sums {
            // Integers are as wide in every program.
            let sums: Vec<f32> = sums.into_iter().map(|sum: i32| f32::from_bits(sum.cast_unsigned())).collect();
            self.by_group(chunks, weight, &sums, groups, Self::send)?;
        }
        Ok(Measured { weight, form: WeightFormat::Int4 { group }, numbers: matrix.count(), deviation })
    }

    fn scales_as_they_are(&mut self, chunks: &SyncSender<Chunk>, weight: Weight, scales: &[f32]) -> Result<()> {
        for block in blocks(scales.len(), 4) {
            let last = block.end == scales.len();
            self.send_numbers(chunks, Some(weight), to_bytes(&scales[block]), last)?;
        }
        Ok(())
    }

    /// Sends 32-bit numbers of rows and groups, group by group, rows padded.
    fn by_group(
        &mut self,
        chunks: &SyncSender<Chunk>,
        weight: Weight,
        scales: &[f32],
        groups: usize,
        send: SendFn<'a>,
    ) -> Result<()> {
        let rows = scales.len() / groups;
        let padded = padded_rows(rows);
        for block in blocks(groups, padded * 4) {
            let mut bytes = vec![0; block.len() * padded * 4];
            bytes.par_chunks_exact_mut(padded * 4).zip(block.clone()).for_each(|(out, group)| {
                for (out, row) in out.as_chunks_mut().0.iter_mut().zip(0..rows) {
                    *out = scales[row * groups + group].to_le_bytes();
                }
            });
            send(self, chunks, Some(weight), bytes, block.end == groups)?;
        }
        Ok(())
    }

    fn floats(&mut self, chunks: &SyncSender<Chunk>, weight: Weight) -> Result<Measured> {
        let matrix = self.source.config().shape(weight);
        let (rows, columns) = (matrix.rows as usize, matrix.columns as usize);
        for block in blocks(rows, columns * 4) {
            let mut bytes = vec![0; block.len() * columns * 4];
            float_rows(self.source, weight, block.start, columns, &mut bytes)?;
            self.send_numbers(chunks, Some(weight), bytes, block.end == rows)?;
        }
        Ok(Measured {
            weight,
            form: WeightFormat::Float32,
            numbers: matrix.count(),
            deviation: QuantisationError::default(),
        })
    }

    fn rotary(&mut self, chunks: &SyncSender<Chunk>, wave: Wave, positions: u64) -> Result<()> {
        let table = RopeTable::new(self.source.config());
        let positions = usize::try_from(positions).map_err(|_| too_large())?;
        let row_len = table.frequencies().len() * 4;
        for block in blocks(positions, row_len) {
            let mut bytes = vec![0; block.len() * row_len];
            let rows = bytes.par_chunks_exact_mut(row_len).zip(block.clone());
            rows.for_each(|(out, position)| table.row(wave, position, out));
            self.send_numbers(chunks, None, bytes, block.end == positions)?;
        }
        Ok(())
    }

    fn zeros(&mut self, chunks: &SyncSender<Chunk>, len: u64) -> Result<()> {
        let len = usize::try_from(len).map_err(|_| too_large())?;
        for block in blocks(len, 1) {
            self.send(chunks, None, vec![0; block.len()], block.end == len)?;
        }
        Ok(())
    }
}

/// Sends the bytes of a weight; whether they are the last of an item.
type SendFn<'a> = fn(&mut Producer<'a>, &SyncSender<Chunk>, Option<Weight>, Vec<u8>, bool) -> Result<()>;

/// The sum of 4-bit numbers, two per byte, of which 8 is zero.
fn sum_of(nibbles: &[u8]) -> i32 {
    nibbles.iter().map(|byte| i32::from(byte & 0xf) + i32::from(byte >> 4) - 16).sum()
}

/// The source of 4-bit rows.
struct Int4Rows<'a> {
    source: &'a dyn Source,
    how: ScaleMethod,
    weight: Weight,
    group: u32,
}

impl Int4Rows<'_> {
    /// Computes the program's rows from `first` on, as many as fit.
    fn compute(&self, first: usize, columns: usize, nibbles: &mut [u8], scales: &mut [f32]) -> Result<QuantisationError> {
        let groups = columns / self.group as usize;
        let rows = nibbles.par_chunks_exact_mut(columns / 2).zip(scales.par_chunks_exact_mut(groups));
        let rows = rows.enumerate().with_min_len(ROWS_AT_ONCE);
        let rows: Vec<Result<QuantisationError>> = rows
            .map_init(
                || vec![0.0; columns],
                |numbers, (index, (nibbles, scales))| self.row(first + index, numbers, nibbles, scales),
            )
            .collect();
        // In order, so that neither the sum nor the first error depends on the threads.
        rows.into_iter().try_fold(QuantisationError::default(), |all, row| Ok(all.merge(row?)))
    }

    fn row(&self, row: usize, numbers: &mut [f32], nibbles: &mut [u8], scales: &mut [f32]) -> Result<QuantisationError> {
        let row = checkpoint_row(self.source, self.weight, row)?;
        if let Some(stored) = self.source.int4_row(self.weight, row, self.group) {
            if (stored.nibbles.len(), stored.scales.len()) != (nibbles.len(), scales.len()) {
                let (weight, found) = (self.weight, stored.nibbles.len());
                let problem = format!("row {row} has {found} bytes of 4-bit numbers, expected {}", nibbles.len());
                return Err(Error::Malformed { file: weight.to_string(), problem });
            }
            quantise::finite(&stored.scales).map_err(|found| self.not_finite(row, found))?;
            nibbles.copy_from_slice(&stored.nibbles);
            scales.copy_from_slice(&stored.scales);
            return Ok(QuantisationError::default());
        }
        self.source.row(self.weight, row, numbers)?;
        let quantised = quantise::quantise_row(self.how, numbers, self.group as usize, nibbles, scales);
        quantised.map_err(|found| self.not_finite(row, found))
    }

    fn not_finite(&self, row: u32, found: NotFinite) -> Error {
        not_finite(self.weight, row, found)
    }
}

/// Reads the program's rows from `first` on as float32, as many as fit.
fn float_rows(source: &dyn Source, weight: Weight, first: usize, columns: usize, out: &mut [u8]) -> Result<()> {
    let rows = out.par_chunks_exact_mut(columns * 4).enumerate().with_min_len(ROWS_AT_ONCE);
    let compute = |numbers: &mut Vec<f32>, (index, out): (usize, &mut [u8])| {
        let row = checkpoint_row(source, weight, first + index)?;
        source.row(weight, row, numbers)?;
        quantise::finite(numbers).map_err(|found| not_finite(weight, row, found))?;
        for (out, number) in out.as_chunks_mut().0.iter_mut().zip(numbers) {
            *out = number.to_le_bytes();
        }
        Ok(())
    };
    let rows: Vec<Result<()>> = rows.map_init(|| vec![0.0; columns], compute).collect();
    rows.into_iter().collect()
}

/// Maps a row of the program to the checkpoint's.
fn checkpoint_row(source: &dyn Source, weight: Weight, row: usize) -> Result<u32> {
    let row = u32::try_from(row).map_err(|_| too_large())?;
    Ok(source.config().checkpoint_row(weight, row))
}

fn not_finite(weight: Weight, row: u32, NotFinite { column, value }: NotFinite) -> Error {
    Error::NotFinite { weight, row, column, value }
}

fn too_large() -> Error {
    Error::Template("a constant is larger than this machine's memory can count".to_owned())
}

fn to_bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Rows in blocks of about [`BLOCK`] bytes, where a row has `row_len`. No rows give one empty block, since every item needs an end.
fn blocks(rows: usize, row_len: usize) -> impl Iterator<Item = Range<usize>> {
    let step = (BLOCK / row_len.max(1)).max(1);
    (0..rows.max(1)).step_by(step).map(move |start| start.min(rows)..(start + step).min(rows))
}
