//! Models of any shape with synthetic weights, for benchmarks and tests.

mod generator;
mod shapes;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use generator::Generator;
pub use shapes::{names, parse};

use crate::config::{LayerWeight, ModelConfig, Weight};
use crate::error::Result;
use crate::quantise::dequantise_row;
use crate::source::{CheckpointMetadata, Int4Row, Source};

/// The root mean square of random levels between −7 and 7, with zero twice as frequent as the others.
const LEVEL: f64 = 4.183_300_132_670_378;

/// A source of random weights. Projections preserve the scale of activations, so that logits stay near 1.
#[derive(Clone, Debug)]
pub struct Synthetic {
    config: ModelConfig,
    seed: u64,
}

impl Synthetic {
    /// Creates weights that depend only on the configuration and the seed.
    #[must_use]
    pub fn new(config: ModelConfig, seed: u64) -> Self {
        Self { config, seed }
    }

    fn generator(&self, weight: Weight, row: u32) -> Generator {
        let weight = match weight {
            Weight::Embedding => 0,
            Weight::FinalNorm => 1,
            Weight::Output => 2,
            Weight::Layer(layer, part) => (u64::from(layer) + 1) << 8 | part as u64,
        };
        Generator::new([self.seed, weight, u64::from(row)])
    }

    /// Returns the nibbles of a row and the scale of all of its groups.
    fn row_of_nibbles(&self, weight: Weight, row: u32) -> (Vec<u8>, f32) {
        let columns = self.config.shape(weight).columns;
        let mut generator = self.generator(weight, row);
        let spread = 0.75 + 0.5 * f64::from(generator.fraction());
        let scale = spread / (LEVEL * f64::from(columns).sqrt());
        let mut nibbles = vec![0; columns as usize / 2];
        generator.nibbles(&mut nibbles);
        #[allow(clippy::cast_possible_truncation, reason = "any float32 near it will do")]
        (nibbles, scale as f32)
    }

    /// Returns an element of a vector: norms are near 1, biases near 0.
    fn number(&self, weight: Weight, row: u32) -> f32 {
        let centre = match weight {
            Weight::Layer(
                _,
                LayerWeight::QueryBias | LayerWeight::KeyBias | LayerWeight::ValueBias | LayerWeight::AttentionOutputBias,
            ) => 0.0,
            _ => 1.0,
        };
        centre + (self.generator(weight, row).fraction() - 0.5) / 4.0
    }
}

impl Source for Synthetic {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn row(&self, weight: Weight, row: u32, out: &mut [f32]) -> Result<()> {
        if let [number] = out {
            *number = self.number(weight, row);
        } else {
            let (nibbles, scale) = self.row_of_nibbles(weight, row);
            dequantise_row(&nibbles, &[scale], out);
        }
        Ok(())
    }

    fn int4_row(&self, weight: Weight, row: u32, group: u32) -> Option<Int4Row<'_>> {
        let columns = self.config.shape(weight).columns;
        if columns == 1 || group == 0 || !columns.is_multiple_of(group) {
            return None;
        }
        let (nibbles, scale) = self.row_of_nibbles(weight, row);
        Some(Int4Row { nibbles: Cow::Owned(nibbles), scales: vec![scale; (columns / group) as usize] })
    }

    fn metadata(&self) -> CheckpointMetadata {
        CheckpointMetadata::default()
    }
}
