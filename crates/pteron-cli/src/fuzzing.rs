//! File readers that take bytes, for fuzzers.

use crate::npz::{Fault, Npz};
use crate::tune::Store;

/// Reads every array of a `.npz` file whose header claims at most `largest` bytes. Returns the names with the bytes of elements,
/// or the sentence that a user would read.
///
/// # Errors
/// A file that is no archive, or an array that is damaged, not supported or larger.
pub fn npz(bytes: &[u8], largest: u64) -> Result<Vec<(String, usize)>, String> {
    let fail = |fault: Fault| fault.to_string();
    let file = Npz::read(bytes).map_err(fail)?;
    let names: Vec<String> = file.names().map(str::to_owned).collect();
    let read = |name: String| {
        let accept = |header: &crate::npy::Header| match header.total() {
            total if total <= largest => Ok(()),
            total => Err(Refused(format!("{total} bytes are more than {largest}"))),
        };
        let array = file.array::<Refused>(&name, accept).map_err(|Refused(sentence)| sentence)?;
        let (_, elements) = array.ok_or_else(|| format!("{name} is listed and is not there"))?;
        Ok((name, elements.len()))
    };
    names.into_iter().map(read).collect()
}

/// An error message about an array.
struct Refused(String);

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self(fault.to_string())
    }
}

/// Reads a tuning file. Returns the number of entries, and the warning about the rest.
#[must_use]
pub fn tuning(bytes: &[u8]) -> (usize, Option<String>) {
    let store = Store::parse(bytes);
    (store.len(), store.warning)
}
