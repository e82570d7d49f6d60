//! Boxes in a picture, and which of several that overlap to keep.

/// A box that may contain a face: its edges in pixels, and how likely it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) left: f32,
    pub(crate) top: f32,
    pub(crate) right: f32,
    pub(crate) bottom: f32,
    pub(crate) score: f32,
}

impl Candidate {
    fn area(&self) -> f32 {
        (self.right - self.left).max(0.0) * (self.bottom - self.top).max(0.0)
    }

    /// Moves the edges by offsets that are shares of the sides: left, top, right, bottom.
    pub(crate) fn shifted(&self, offsets: &[f32]) -> Self {
        let (width, height) = (self.right - self.left, self.bottom - self.top);
        Self {
            left: self.left + offsets[0] * width,
            top: self.top + offsets[1] * height,
            right: self.right + offsets[2] * width,
            bottom: self.bottom + offsets[3] * height,
            score: self.score,
        }
    }

    /// The square with the same centre that contains the box.
    pub(crate) fn squared(&self) -> Self {
        let half = (self.right - self.left).max(self.bottom - self.top) / 2.0;
        let (x, y) = ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0);
        Self { left: x - half, top: y - half, right: x + half, bottom: y + half, score: self.score }
    }
}

/// How much of two boxes is the same: of what they cover together, or of the smaller one.
#[derive(Clone, Copy)]
pub(crate) enum Overlap {
    Union,
    Smaller,
}

/// Keeps the box with the highest score of those that overlap by more than `most`.
pub(crate) fn suppress(mut boxes: Vec<Candidate>, most: f32, overlap: Overlap) -> Vec<Candidate> {
    boxes.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in boxes {
        let covers = |other: &Candidate| {
            let width = candidate.right.min(other.right) - candidate.left.max(other.left);
            let height = candidate.bottom.min(other.bottom) - candidate.top.max(other.top);
            let shared = width.max(0.0) * height.max(0.0);
            let whole = match overlap {
                Overlap::Union => candidate.area() + other.area() - shared,
                Overlap::Smaller => candidate.area().min(other.area()),
            };
            shared > most * whole
        };
        if !kept.iter().any(covers) {
            kept.push(candidate);
        }
    }
    kept
}
