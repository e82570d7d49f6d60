//! What subgroups do together: loads, products and stores of matrices.

use naga::{CooperativeData, Expression, Handle};

use super::expressions::{is_float, stride_of};
use super::machine::{Frame, Machine};
use super::memory::{Space, Who};
use super::values::{Column, Mask, Matrix, Pointer, Value};

/// The elements of a matrix in memory.
struct Place {
    space: Space,
    scalar: naga::Scalar,
    /// Bytes of the first element, and from one row to the next, or from one column to the next.
    first: usize,
    pitch: usize,
    row_major: bool,
}

impl Place {
    fn byte(&self, row: usize, column: usize) -> usize {
        let (major, minor) = if self.row_major { (row, column) } else { (column, row) };
        self.first + major * self.pitch + minor * usize::from(self.scalar.width)
    }
}

impl<'m> Machine<'m, '_> {
    /// The number that all lanes of a subgroup agree on.
    fn agreed(&self, column: &Column, subgroup: usize) -> usize {
        let lanes = subgroup * self.lanes..(subgroup + 1) * self.lanes;
        let first = column.get(lanes.start);
        assert!(lanes.into_iter().all(|lane| column.get(lane) == first), "lanes differ in the address of a matrix");
        first as usize
    }

    fn place(&self, frame: &Frame<'m>, data: &CooperativeData, subgroup: usize) -> Place {
        let (scalar, per_step) = stride_of(&self.types.pointee(&self.type_of(frame, data.pointer)));
        assert!(is_float(scalar), "matrices of floats");
        let Pointer { root, offset } = self.value(frame, data.pointer).pointer().clone();
        let stride = self.agreed(&self.column(frame, data.stride), subgroup);
        Place {
            space: self.space(root),
            scalar,
            first: self.agreed(&offset, subgroup),
            pitch: stride * per_step * usize::from(scalar.width),
            row_major: data.row_major,
        }
    }

    pub(super) fn load_matrix(&mut self, frame: &Frame<'m>, side: usize, data: &CooperativeData, mask: &Mask) -> Value {
        let active = mask.subgroups(self.subgroups());
        let load = |(subgroup, active): (usize, bool)| -> Matrix {
            let mut matrix = vec![0.0; side * side];
            if active {
                let place = self.place(frame, data, subgroup);
                for (index, value) in matrix.iter_mut().enumerate() {
                    let at = place.byte(index / side, index % side);
                    *value = f32::from_bits(self.memory.read(place.space, at, place.scalar, Who::Subgroup(subgroup)));
                }
            }
            matrix.into()
        };
        Value::Matrices(active.into_iter().enumerate().map(load).collect())
    }

    pub(super) fn store_matrix(
        &mut self,
        frame: &Frame<'m>,
        target: Handle<Expression>,
        data: &CooperativeData,
        mask: &Mask,
    ) {
        let target = self.value(frame, target);
        let active = mask.subgroups(self.subgroups()).into_iter().enumerate();
        for (subgroup, _) in active.filter(|(_, active)| *active) {
            let matrix = &target.matrices()[subgroup];
            let side = matrix.len().isqrt();
            let place = self.place(frame, data, subgroup);
            for (index, value) in matrix.iter().enumerate() {
                let at = place.byte(index / side, index % side);
                self.memory.write(place.space, at, place.scalar, value.to_bits(), Who::Subgroup(subgroup));
            }
        }
    }

    /// `a · b + c`.
    pub(super) fn multiply(&self, frame: &Frame<'m>, factors: [Handle<Expression>; 3], mask: &Mask) -> Value {
        let [a, b, c] = factors.map(|factor| self.value(frame, factor));
        let active = mask.subgroups(self.subgroups());
        let product = |subgroup: usize| {
            let [a, b, c] = [&a, &b, &c].map(|matrices| &matrices.matrices()[subgroup]);
            if active[subgroup] { product(a, b, c) } else { c.clone() }
        };
        Value::Matrices((0..active.len()).map(product).collect())
    }
}

fn product(a: &[f32], b: &[f32], c: &[f32]) -> Matrix {
    let side = c.len().isqrt();
    let mut sums = c.to_vec();
    for (sums, a) in sums.chunks_exact_mut(side).zip(a.chunks_exact(side)) {
        for (a, b) in a.iter().zip(b.chunks_exact(side)) {
            sums.iter_mut().zip(b).for_each(|(sum, b)| *sum += a * b);
        }
    }
    sums.into()
}
