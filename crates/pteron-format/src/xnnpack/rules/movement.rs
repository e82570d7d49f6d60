//! Kinds that move elements.

use super::super::*;
use super::Rules;
use crate::error::{Problem, Result};

impl Rules<'_> {
    /// Kinds that move elements and compute nothing.
    pub(super) fn movement(&self) -> Result<()> {
        match self.kind {
            NodeKind::Concatenate { axis, inputs, output } => {
                if !(2..=5).contains(&inputs.len()) {
                    let found = inputs.len().to_string();
                    return self.fail(Problem::Number {
                        what: "the number of inputs",
                        found: found.into(),
                        expected: "2 to 5",
                    });
                }
                let rank = self.value(*output).dims.len();
                self.list_index("the axis", *axis, rank)?;
                self.same_type(inputs)?;
                self.same_type(&[inputs[0], *output])?;
                let ranks = inputs.iter().map(|&id| self.value(id).dims.len());
                ranks.into_iter().try_for_each(|found| self.expect_size("an input's rank", found, rank))
            }
            NodeKind::Transpose { permutation, input, output } => {
                self.same_type(&[*input, *output])?;
                let dims = &self.value(*input).dims;
                self.expect_size("the length of the permutation", permutation.len(), dims.len())?;
                let mut expected = [0; MAX_RANK];
                let mut seen = [false; MAX_RANK];
                for (at, &dim) in permutation.iter().enumerate() {
                    self.list_index("a dim of the permutation", dim, dims.len())?;
                    if std::mem::replace(&mut seen[dim as usize], true) {
                        let name = dim.to_string();
                        return self.fail(Problem::Duplicate { what: "the dim", name });
                    }
                    expected[at] = dims[dim as usize];
                }
                self.expect_dims(*output, &expected[..dims.len()])
            }
            NodeKind::Reshape { dims, input, output } => {
                self.same_type(&[*input, *output])?;
                let found = &self.value(*output).dims;
                self.expect_size("the output's rank", found.len(), dims.len())?;
                let inferred = dims.iter().filter(|&&dim| dim == 0).count();
                if inferred > 1 {
                    let what = "the number of inferred dims";
                    return self.fail(Problem::TooMany { what, found: inferred as u64, limit: 1 });
                }
                let fixed = found.iter().zip(dims).filter(|&(_, &dim)| dim != 0);
                fixed.into_iter().try_for_each(|(&found, &dim)| self.expect_dim("a dim of the output", found, dim.into()))
            }
            NodeKind::Slice { offsets, sizes, input, output } => {
                self.same_type(&[*input, *output])?;
                let rank = self.value(*input).dims.len();
                self.expect_size("the output's rank", self.value(*output).dims.len(), rank)?;
                self.expect_size("the number of offsets", offsets.len(), rank)?;
                self.expect_size("the number of sizes", sizes.len(), rank)?;
                match offsets.iter().zip(sizes).all(|(offset, &size)| offset.checked_add(size).is_some()) {
                    true => Ok(()),
                    false => self.fail(Problem::Overflow { what: "the end of the slice" }),
                }
            }
            NodeKind::Pad { before, after, input, output, .. } => self.pad(before, after, *input, *output),
            _ => Ok(()),
        }
    }

    fn pad(&self, before: &[u32], after: &[u32], input: ValueId, output: ValueId) -> Result<()> {
        self.same_type(&[input, output])?;
        let (dims, found) = (&self.value(input).dims, &self.value(output).dims);
        self.expect_size("the length of the padding", before.len(), dims.len())?;
        self.expect_size("the length of the padding", after.len(), dims.len())?;
        self.expect_size("the output's rank", found.len(), dims.len())?;
        for (at, &dim) in dims.iter().enumerate() {
            let expected = u64::from(dim) + u64::from(before[at]) + u64::from(after[at]);
            self.expect_dim("a dim of the output", found[at], expected)?;
        }
        Ok(())
    }

    fn list_index(&self, what: &'static str, index: u32, len: usize) -> Result<()> {
        if (index as usize) < len {
            return Ok(());
        }
        self.fail(Problem::Index { what, index: index.into(), len: len as u64 })
    }
}
