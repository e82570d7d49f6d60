//! The size of the block pool, from a budget of memory.

use super::step::{BLOCK_POSITIONS, blocks_for};

/// The memory of a model, for [`pool_blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// The bytes that weights, activations and the pool may use together.
    pub budget: u64,
    /// The bytes of the weights.
    pub weights: u64,
    /// The bytes of activations, scratch and staging at the largest step.
    pub activations: u64,
    /// The bytes of one position in all layers, keys and values.
    pub position: u64,
    /// The context length in positions.
    pub context: u32,
}

/// A budget that does not hold one full context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the memory budget of {budget} bytes leaves {left} for the KV cache after {weights} of weights and {activations} of activations, but one \
     context of {context} positions needs {needed}: raise the budget, or lower the context length"
)]
#[non_exhaustive]
pub struct BudgetError {
    /// The budget in bytes.
    pub budget: u64,
    /// The bytes of the weights.
    pub weights: u64,
    /// The bytes of the activations.
    pub activations: u64,
    /// The bytes left for the pool.
    pub left: u64,
    /// The bytes of one full context.
    pub needed: u64,
    /// The context length in positions.
    pub context: u32,
}

/// Returns how many blocks fit: (budget − weights − activations) / bytes of a block.
///
/// # Errors
/// Not even one full context fits.
pub fn pool_blocks(memory: &MemoryBudget) -> Result<u32, BudgetError> {
    let &MemoryBudget { budget, weights, activations, position, context } = memory;
    let left = budget.saturating_sub(weights).saturating_sub(activations);
    let block = position.saturating_mul(u64::from(BLOCK_POSITIONS)).max(1);
    let context_blocks = blocks_for(usize::try_from(context).unwrap_or(usize::MAX)).max(1);
    let needed = u64::try_from(context_blocks).unwrap_or(u64::MAX).saturating_mul(block);
    if needed > left {
        return Err(BudgetError { budget, weights, activations, left, needed, context });
    }
    // The largest id marks no block, and ids are 32 bits.
    Ok(u32::try_from(left / block).unwrap_or(u32::MAX - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_takes_what_weights_and_activations_leave() {
        let memory = MemoryBudget { budget: 10_000, weights: 3_000, activations: 600, position: 10, context: 100 };
        // 6400 bytes are left, and a block has 320.
        assert_eq!(pool_blocks(&memory), Ok(20));
        let blocks = u64::from(pool_blocks(&memory).unwrap());
        assert!(memory.weights + memory.activations + blocks * 320 <= memory.budget);
    }

    #[test]
    fn a_budget_below_one_context_is_refused_with_numbers() {
        let memory = MemoryBudget { budget: 5_000, weights: 3_000, activations: 721, position: 10, context: 100 };
        let error = pool_blocks(&memory).unwrap_err();
        assert_eq!((error.left, error.needed), (1_279, 1_280));
        assert!(error.to_string().contains("1279") && error.to_string().contains("1280"), "{error}");
        assert_eq!(pool_blocks(&MemoryBudget { activations: 720, ..memory }), Ok(4));
        assert!(pool_blocks(&MemoryBudget { weights: u64::MAX, ..memory }).is_err());
        assert!(pool_blocks(&MemoryBudget { position: u64::MAX, ..memory }).is_err());
    }
}
