//! The values of one call, and the host memory they hold.

use std::collections::HashMap;

use pteron_format::program::ValueId;

use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Bytes of host memory that a method's own tensors may take in addition to the size of its files, if no budget is given.
pub(crate) const HOST_MEMORY: u64 = 1 << 30;

/// Checks that bytes are within a budget.
pub(crate) fn within_budget(method: &str, what: &'static str, need: u64, limit: u64) -> Result<()> {
    if need <= limit {
        return Ok(());
    }
    Err(Error::HostMemory { method: method.to_owned(), what, need, limit })
}

/// The values of a call by id. Bytes that several values share count once.
pub(crate) struct ValueTable<'m> {
    method: &'m str,
    tensors: HashMap<ValueId, Tensor>,
    /// How many values hold the same bytes, by their address.
    holders: HashMap<usize, usize>,
    bytes: u64,
    limit: u64,
}

impl<'m> ValueTable<'m> {
    /// Creates an empty table whose values may hold `limit` bytes in total.
    pub(crate) fn new(method: &'m str, limit: u64) -> Self {
        Self { method, tensors: HashMap::new(), holders: HashMap::new(), bytes: 0, limit }
    }

    pub(crate) fn get(&self, id: ValueId) -> Option<&Tensor> {
        self.tensors.get(&id)
    }

    /// Sets a value.
    ///
    /// # Errors
    /// More bytes than the limit.
    pub(crate) fn insert(&mut self, id: ValueId, tensor: Tensor) -> Result<()> {
        let (address, len) = storage(&tensor);
        let holders = self.holders.entry(address).or_insert(0);
        *holders += 1;
        if *holders == 1 {
            self.bytes = self.bytes.saturating_add(len);
        }
        if let Some(before) = self.tensors.insert(id, tensor) {
            self.forget(&before);
        }
        within_budget(self.method, "what a call computes", self.bytes, self.limit)
    }

    /// Removes a value that nothing reads any more.
    pub(crate) fn remove(&mut self, id: ValueId) {
        if let Some(before) = self.tensors.remove(&id) {
            self.forget(&before);
        }
    }

    fn forget(&mut self, tensor: &Tensor) {
        let (address, len) = storage(tensor);
        let left = self.holders.get_mut(&address).map(|holders| {
            *holders -= 1;
            *holders
        });
        if left == Some(0) {
            self.holders.remove(&address);
            self.bytes = self.bytes.saturating_sub(len);
        }
    }
}

/// The address of a tensor's bytes, and their number.
fn storage(tensor: &Tensor) -> (usize, u64) {
    (tensor.storage().address(), tensor.bytes().len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(len: u32) -> Tensor {
        Tensor::zeros(pteron_format::ScalarType::Byte, &[len]).unwrap()
    }

    #[test]
    fn shared_bytes_count_once_until_the_last_value_goes() {
        let mut values = ValueTable::new("forward", 100);
        let large = tensor(60);
        for id in 0..200 {
            values.insert(ValueId(id), large.clone()).unwrap();
        }
        assert_eq!(values.bytes, 60);
        let error = values.insert(ValueId(200), tensor(60)).unwrap_err();
        assert!(matches!(error, Error::HostMemory { need: 120, limit: 100, .. }), "{error:?}");
        for id in 0..200 {
            values.remove(ValueId(id));
        }
        assert_eq!(values.bytes, 60, "the one that was too much is still there");
        values.insert(ValueId(200), tensor(100)).unwrap();
        assert_eq!((values.bytes, values.holders.len()), (100, 1));
    }
}
