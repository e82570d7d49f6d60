//! Low-rank adapters (LoRA) of decoders: updates of linears, `W + scale · B A`, apart from any file's names.

use std::fmt;

/// A linear of a decoder's layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Projection {
    /// The queries of attention.
    Query,
    /// The keys of attention.
    Key,
    /// The values of attention.
    Value,
    /// The linear after attention.
    AttentionOutput,
    /// The factor of SwiGLU that is activated.
    Gate,
    /// The other factor.
    Up,
    /// The linear after SwiGLU.
    Down,
}

impl Projection {
    /// Every projection, in the order in which a layer computes them.
    pub const ALL: [Self; 7] =
        [Self::Query, Self::Key, Self::Value, Self::AttentionOutput, Self::Gate, Self::Up, Self::Down];

    /// The name that adapters and messages use: `q_proj`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Query => "q_proj",
            Self::Key => "k_proj",
            Self::Value => "v_proj",
            Self::AttentionOutput => "o_proj",
            Self::Gate => "gate_proj",
            Self::Up => "up_proj",
            Self::Down => "down_proj",
        }
    }
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of projections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Projections(u8);

impl Projections {
    /// Every projection.
    pub const ALL: Self = Self::of(&Projection::ALL);
    /// Those of attention.
    pub const ATTENTION: Self =
        Self::of(&[Projection::Query, Projection::Key, Projection::Value, Projection::AttentionOutput]);

    /// Creates a set.
    #[must_use]
    pub const fn of(projections: &[Projection]) -> Self {
        let (mut set, mut index) = (0, 0);
        while index < projections.len() {
            set |= 1 << projections[index] as u8;
            index += 1;
        }
        Self(set)
    }

    /// Whether a projection is in the set.
    #[must_use]
    pub const fn contains(self, projection: Projection) -> bool {
        self.0 >> (projection as u8) & 1 == 1
    }
}

/// The update of one linear: to the product of a row x, `scale · B (A x)` is added.
#[derive(Clone, Debug, PartialEq)]
pub struct LowRankUpdate {
    /// The layer, counted from 0.
    pub layer: u32,
    /// The linear of the layer.
    pub projection: Projection,
    /// Rows of A and columns of B.
    pub rank: u32,
    /// Columns of A: those of the linear's weight.
    pub columns: u32,
    /// Rows of B: those of the linear's weight, in the order of Hugging Face's checkpoints.
    pub rows: u32,
    /// The factor of the product.
    pub scale: f32,
    /// A, `[rank, columns]`.
    pub a: Vec<f32>,
    /// B, `[rows, rank]`.
    pub b: Vec<f32>,
}

/// A low-rank adapter of a decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraAdapter {
    updates: Vec<LowRankUpdate>,
}

/// Updates that are no adapter.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterError {
    /// An adapter without updates.
    #[error("the adapter updates no linear")]
    Empty,
    /// Two updates of one linear.
    #[error("the adapter updates {projection} of layer {layer} twice")]
    Twice {
        /// The layer.
        layer: u32,
        /// The linear.
        projection: Projection,
    },
    /// A matrix whose length is not that of its shape.
    #[error("the adapter's matrix {matrix} for {projection} of layer {layer} has {found} numbers, expected {expected:?}")]
    Length {
        /// The layer.
        layer: u32,
        /// The linear.
        projection: Projection,
        /// `A` or `B`.
        matrix: char,
        /// Its numbers.
        found: usize,
        /// Its rows and columns.
        expected: [u32; 2],
    },
    /// A number that is infinite or NaN.
    #[error("the adapter for {projection} of layer {layer} has {value}; weights must be finite")]
    NotFinite {
        /// The layer.
        layer: u32,
        /// The linear.
        projection: Projection,
        /// The number.
        value: f32,
    },
}

impl LoraAdapter {
    /// Creates an adapter of updates in any order.
    ///
    /// # Errors
    /// No updates, two of one linear, matrices that are not as long as their shapes, numbers that are not finite.
    pub fn new(mut updates: Vec<LowRankUpdate>) -> Result<Self, AdapterError> {
        updates.sort_by_key(|update| (update.layer, update.projection));
        if updates.is_empty() {
            return Err(AdapterError::Empty);
        }
        for pair in updates.windows(2) {
            let [first, LowRankUpdate { layer, projection, .. }] = pair else { continue };
            if (first.layer, first.projection) == (*layer, *projection) {
                return Err(AdapterError::Twice { layer: *layer, projection: *projection });
            }
        }
        updates.iter().try_for_each(LowRankUpdate::check)?;
        Ok(Self { updates })
    }

    /// The updates, by layer and projection.
    #[must_use]
    pub fn updates(&self) -> &[LowRankUpdate] {
        &self.updates
    }

    /// The largest rank of the updates.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.updates.iter().map(|update| update.rank).max().unwrap_or(0)
    }
}

impl LowRankUpdate {
    fn check(&self) -> Result<(), AdapterError> {
        let &Self { layer, projection, rank, columns, rows, scale, ref a, ref b } = self;
        for (matrix, values, expected) in [('A', a, [rank, columns]), ('B', b, [rows, rank])] {
            if expected.contains(&0) || values.len() as u64 != u64::from(expected[0]) * u64::from(expected[1]) {
                return Err(AdapterError::Length { layer, projection, matrix, found: values.len(), expected });
            }
        }
        match [scale].iter().chain(a).chain(b).find(|value| !value.is_finite()) {
            Some(&value) => Err(AdapterError::NotFinite { layer, projection, value }),
            None => Ok(()),
        }
    }
}

/// The row of a weight for split halves (Hugging Face: elements `i` and `i + head_dim / 2` of a head are a pair) that is a given row where
/// pairs are adjacent, as rotary embedding of converted programs has them.
#[must_use]
pub const fn half_split_row(row: u32, head_dim: u32) -> u32 {
    let within = row % head_dim;
    row - within + within / 2 + within % 2 * (head_dim / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(layer: u32, projection: Projection) -> LowRankUpdate {
        LowRankUpdate { layer, projection, rank: 2, columns: 3, rows: 4, scale: 0.5, a: vec![1.0; 6], b: vec![1.0; 8] }
    }

    #[test]
    fn updates_are_sorted_and_checked() {
        let adapter = LoraAdapter::new(vec![update(1, Projection::Query), update(0, Projection::Down)]).unwrap();
        let order: Vec<_> = adapter.updates().iter().map(|update| (update.layer, update.projection)).collect();
        assert_eq!((order, adapter.rank()), (vec![(0, Projection::Down), (1, Projection::Query)], 2));
        assert_eq!(LoraAdapter::new(vec![]), Err(AdapterError::Empty));
        let twice = LoraAdapter::new(vec![update(0, Projection::Up); 2]).unwrap_err().to_string();
        assert_eq!(twice, "the adapter updates up_proj of layer 0 twice");
        let short = LowRankUpdate { b: vec![1.0; 7], ..update(3, Projection::Key) };
        let error = LoraAdapter::new(vec![short]).unwrap_err().to_string();
        assert_eq!(error, "the adapter's matrix B for k_proj of layer 3 has 7 numbers, expected [4, 2]");
        let infinite = LowRankUpdate { scale: f32::NAN, ..update(0, Projection::Key) };
        assert!(LoraAdapter::new(vec![infinite]).unwrap_err().to_string().contains("NaN; weights must be finite"));
        let empty = LowRankUpdate { rank: 0, a: vec![], b: vec![], ..update(0, Projection::Key) };
        assert!(LoraAdapter::new(vec![empty]).is_err());
    }

    #[test]
    fn sets_contain_their_projections() {
        let set = Projections::of(&[Projection::Query, Projection::Down]);
        let contained: Vec<_> = Projection::ALL.into_iter().filter(|&projection| set.contains(projection)).collect();
        assert_eq!(contained, [Projection::Query, Projection::Down]);
        assert!(Projection::ALL.into_iter().all(|projection| Projections::ALL.contains(projection)));
    }

    #[test]
    fn rows_of_split_halves_alternate() {
        let rows: Vec<u32> = (0..12).map(|row| half_split_row(row, 6)).collect();
        assert_eq!(rows, [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]);
    }
}
