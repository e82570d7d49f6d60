//! Outputs for people: the classes with the highest scores, pictures and sound.

use std::io::Write;
use std::path::{Path, PathBuf};

use pteron::Tensor;
use pteron::media::{Audio, Image, top_k};

use super::Call;
use super::args::{Exec, OutputArgs, Range};
use crate::failure::{Failure, Reason};
use crate::table::{Cell, Table};
use crate::terminal::{self, FAINT, NUMBER, clean};
use crate::{files, units};

/// The largest file of labels.
const MOST_LABEL_BYTES: u64 = 1 << 24;
/// The rate of a sound where neither the command line nor an input has one.
const DEFAULT_RATE: u32 = 16_000;

/// Prints and writes the outputs of calls in other forms than arrays.
pub(super) struct OutputWriter<'a> {
    args: &'a OutputArgs,
    labels: Option<(&'a Path, Vec<String>)>,
    layout: Option<pteron::media::Layout>,
    rate: Option<u32>,
}

impl<'a> OutputWriter<'a> {
    /// Reads the labels.
    pub(super) fn new(args: &'a Exec) -> Result<Self, Failure> {
        let read = |path: &'a PathBuf| {
            let bytes = files::read(path, MOST_LABEL_BYTES)?;
            let text = String::from_utf8(bytes).map_err(|_| Failure::file(path, Reason::NotLabels))?;
            Ok::<_, Failure>((path.as_path(), text.lines().map(|line| line.trim().to_owned()).collect()))
        };
        let labels = args.outputs.labels.as_ref().map(read).transpose()?;
        Ok(Self { args: &args.outputs, labels, layout: args.media.layout(), rate: args.media.rate })
    }

    /// Prints and writes what was asked for.
    pub(super) fn write(&self, index: usize, call: &Call, outputs: &[Tensor]) -> Result<(), Failure> {
        let found = || {
            let one = |output: &Tensor| format!("{} {:?}", output.scalar_type().name(), output.shape());
            outputs.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        let none = |path: &Path, what| Failure::file(path, Reason::NoOutput { what, found: found() });
        if let Some(k) = self.args.top {
            let output = outputs.first().ok_or_else(|| none(&call.path, "there to print"))?;
            self.print_top(k as usize, call, output)?;
        }
        if let Some(path) = &self.args.out_image {
            let path = numbered(path, index);
            let Range { low, high } = self.args.out_range;
            let picture = outputs.iter().find_map(|output| Image::from_tensor(output, low, high, self.layout).ok());
            let picture = picture.ok_or_else(|| none(&path, "a picture"))?;
            write_file(&path, picture.encode_png())?;
        }
        if let Some(path) = &self.args.out_audio {
            let path = numbered(path, index);
            let rate = self.rate.or(call.rate).unwrap_or(DEFAULT_RATE);
            let sound = outputs.iter().find_map(|output| Audio::from_tensor(output, rate).ok());
            let sound = sound.ok_or_else(|| none(&path, "a sound"))?;
            write_file(&path, sound.encode_wav())?;
        }
        Ok(())
    }

    /// Prints the largest elements of each row of an output.
    fn print_top(&self, k: usize, call: &Call, output: &Tensor) -> Result<(), Failure> {
        let integers = || Some(output.to_i64()?.into_iter().map(|value| value as f32).collect());
        let values: Vec<f32> = output.to_f32().or_else(integers).unwrap_or_default();
        let classes = output.shape().last().copied().unwrap_or(1).max(1) as usize;
        if let Some((path, labels)) = &self.labels
            && labels.len() != classes
        {
            return Err(Failure::file(path, Reason::Labels { found: labels.len(), classes }));
        }
        let mut table = Table::default();
        for (row, values) in values.chunks_exact(classes).enumerate() {
            let name = super::file_name(&call.path);
            let title =
                if output.shape().iter().rev().skip(1).all(|&dim| dim == 1) { name } else { format!("{name} [{row}]") };
            table.row([Cell::new(clean(&title)).style(FAINT)]);
            let shares = probabilities(values);
            for (class, value) in top_k(values, k) {
                let label = self.labels.as_ref().and_then(|(_, labels)| labels.get(class)).map_or("", String::as_str);
                let share = shares.as_ref().and_then(|shares| shares.get(class));
                table.row([
                    Cell::new(units::count(class as u64)).right(),
                    Cell::new(share.map_or_else(|| format!("{value:.4}"), |share| format!("{:.2} %", share * 100.0)))
                        .style(NUMBER)
                        .right(),
                    Cell::new(clean(label)),
                ]);
            }
        }
        let mut out = String::new();
        table.write(&mut out, 0, terminal::width());
        terminal::print_styled(&out)
    }
}

/// The softmax of logits. Values that are probabilities already stay as they are, and none are of others.
fn probabilities(values: &[f32]) -> Option<Vec<f64>> {
    let sum: f64 = values.iter().map(|&value| f64::from(value)).sum();
    if values.iter().all(|value| (0.0..=1.0).contains(value)) {
        return ((sum - 1.0).abs() < 1e-2).then(|| values.iter().map(|&value| value.into()).collect());
    }
    let most = values.iter().copied().filter(|value| value.is_finite()).fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = values.iter().map(|&value| f64::from(value - most).exp()).collect();
    let total: f64 = powers.iter().sum();
    (total.is_finite() && total > 0.0).then(|| powers.iter().map(|power| power / total).collect())
}

/// The path of a call's file: the first has the name that was given, others end in their number.
fn numbered(path: &Path, index: usize) -> PathBuf {
    if index == 0 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    path.with_file_name(format!("{stem}-{index}{extension}"))
}

fn write_file(path: &Path, encoded: Result<Vec<u8>, pteron::media::MediaError>) -> Result<(), Failure> {
    let bytes = encoded.map_err(|error| Failure::file(path, error))?;
    files::write(path, |out| out.write_all(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_become_probabilities_and_probabilities_stay() {
        assert_eq!(probabilities(&[0.25, 0.75]), Some(vec![0.25, 0.75]));
        let shares = probabilities(&[1.0, 3.0, f32::NEG_INFINITY]).unwrap();
        assert!((shares[1] - 0.880_797).abs() < 1e-5 && shares[2] == 0.0, "{shares:?}");
        assert_eq!(probabilities(&[0.5, 0.9]), None, "independent scores");
        assert_eq!(probabilities(&[f32::NAN, 2.0]), None);
    }

    #[test]
    fn further_files_end_in_their_number() {
        assert_eq!(numbered(Path::new("a/b.png"), 0), Path::new("a/b.png"));
        assert_eq!(numbered(Path::new("a/b.png"), 2), Path::new("a/b-2.png"));
        assert_eq!(numbered(Path::new("b"), 1), Path::new("b-1"));
    }
}
