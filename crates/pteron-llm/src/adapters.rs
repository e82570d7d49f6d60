//! The adapters that a paged model holds.

use crate::error::{Error, Result};

/// A LoRA adapter that a [`PagedModel`](crate::PagedModel) holds. It is not valid after the adapter was unloaded or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdapterId {
    slot: u32,
    generation: u32,
}

/// The slots of a model, and which of them hold an adapter.
#[derive(Debug, Default)]
pub(crate) struct AdapterTable {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// How many adapters it has held.
    generation: u32,
    /// The rank of the adapter that it holds.
    rank: Option<u32>,
}

impl AdapterTable {
    pub(crate) fn new(slots: u32) -> Self {
        Self { slots: vec![Slot::default(); slots as usize] }
    }

    /// A slot without an adapter.
    pub(crate) fn free_slot(&self) -> Result<u32> {
        let free = (0..).zip(&self.slots).find(|(_, slot)| slot.rank.is_none()).map(|(index, _)| index);
        free.ok_or_else(|| {
            let slots = self.slots.len();
            Error::Misuse(format!("all {slots} slots hold an adapter: unload one, or load the model with more"))
        })
    }

    /// The slot of an adapter.
    pub(crate) fn slot(&self, id: AdapterId) -> Result<u32> {
        let own = self.slots.get(id.slot as usize).filter(|slot| slot.rank.is_some() && slot.generation == id.generation);
        own.map(|_| id.slot).ok_or_else(|| Error::Misuse("the adapter was unloaded or belongs to another model".to_owned()))
    }

    /// Records that a slot holds an adapter.
    pub(crate) fn fill(&mut self, slot: u32, rank: u32) -> AdapterId {
        let Some(own) = self.slots.get_mut(slot as usize) else { return AdapterId { slot, generation: 0 } };
        *own = Slot { generation: own.generation.wrapping_add(1), rank: Some(rank) };
        AdapterId { slot, generation: own.generation }
    }

    /// Records that a slot holds none.
    pub(crate) fn clear(&mut self, slot: u32) {
        if let Some(own) = self.slots.get_mut(slot as usize) {
            own.rank = None;
        }
    }

    /// The rank of the adapter in each slot, 0 where there is none.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        self.slots.iter().map(|slot| slot.rank.unwrap_or(0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_filled_in_order_and_ids_end_with_their_adapter() {
        let mut table = AdapterTable::new(2);
        let first = table.fill(table.free_slot().unwrap(), 8);
        let second = table.fill(table.free_slot().unwrap(), 4);
        assert_eq!((table.slot(first).unwrap(), table.slot(second).unwrap(), table.ranks()), (0, 1, vec![8, 4]));
        assert!(table.free_slot().unwrap_err().to_string().contains("all 2 slots hold an adapter"));
        table.clear(0);
        assert!(table.slot(first).is_err());
        let third = table.fill(table.free_slot().unwrap(), 16);
        assert!(table.slot(first).is_err() && table.slot(third).unwrap() == 0);
        assert_eq!(table.ranks(), [16, 4]);
        assert!(AdapterTable::new(0).slot(first).is_err());
    }
}
