//! Rows of hidden states to one vector.

/// How the hidden states of a text's tokens become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pooling {
    /// Those of the last token, which has seen the whole text: for decoders.
    Last,
    /// The mean of all tokens'.
    Mean,
    /// Those of the first token, which stands for the text in encoders such as BERT.
    First,
}

/// A vector that is built row by row.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pooling: Pooling,
    /// The tokens of the text.
    tokens: usize,
    sums: Vec<f64>,
}

impl Pool {
    pub(super) fn new(pooling: Pooling, tokens: usize) -> Self {
        Self { pooling, tokens, sums: Vec::new() }
    }

    /// Whether the vector depends on the row of a token.
    pub(super) fn needs(&self, token: usize) -> bool {
        match self.pooling {
            Pooling::Last => token + 1 == self.tokens,
            Pooling::Mean => token < self.tokens,
            Pooling::First => token == 0,
        }
    }

    /// Adds a row that is needed.
    pub(super) fn add(&mut self, row: &[f32]) {
        self.sums.resize(row.len(), 0.0);
        self.sums.iter_mut().zip(row).for_each(|(sum, number)| *sum += f64::from(*number));
    }

    pub(super) fn finish(self) -> Vec<f32> {
        let count = match self.pooling {
            Pooling::Mean => self.tokens.max(1),
            Pooling::Last | Pooling::First => 1,
        };
        #[expect(clippy::cast_precision_loss, reason = "tokens of a text")]
        let count = count as f64;
        #[expect(clippy::cast_possible_truncation, reason = "vectors are 32-bit floats")]
        let vector = self.sums.into_iter().map(|sum| (sum / count) as f32).collect();
        vector
    }
}

/// Divides a vector by its length. Zeros stay.
pub(super) fn normalize(vector: &mut [f32]) {
    let square: f64 = vector.iter().map(|number| f64::from(*number).powi(2)).sum();
    if square > 0.0 {
        #[expect(clippy::cast_possible_truncation, reason = "vectors are 32-bit floats")]
        vector.iter_mut().for_each(|number| *number = (f64::from(*number) / square.sqrt()) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_pooled_by_their_place() {
        let rows = [[1.0, 2.0], [3.0, 4.0], [8.0, 0.0]];
        let pooled = |pooling| {
            let mut pool = Pool::new(pooling, 3);
            for (_, row) in (0..).zip(&rows).filter(|(token, _)| Pool::new(pooling, 3).needs(*token)) {
                pool.add(row);
            }
            pool.finish()
        };
        assert_eq!([Pooling::Last, Pooling::Mean, Pooling::First].map(pooled), [[8.0, 0.0], [4.0, 2.0], [1.0, 2.0]]);
    }

    #[test]
    fn vectors_of_any_size_are_normalised() {
        let mut vector = [3.0, 4.0].map(|number| number * 2f32.powi(100));
        normalize(&mut vector);
        assert_eq!(vector, [0.6, 0.8]);
        let mut zeros = [0.0; 2];
        normalize(&mut zeros);
        assert_eq!(zeros, [0.0; 2]);
    }
}
