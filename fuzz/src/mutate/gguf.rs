//! Changes of GGUF files by their entries: names, types, values, dimensions and offsets, with the lengths before them kept right.

use fastrand::Rng;

use super::atoms;

/// Arrays inside of arrays are read up to this depth.
const MAX_DEPTH: usize = 4;

/// A file in its parts. Values are kept as they are written.
#[derive(Clone)]
struct File {
    version: u32,
    entries: Vec<Entry>,
    tensors: Vec<Tensor>,
    data: Vec<u8>,
}

#[derive(Clone)]
struct Entry {
    key: Vec<u8>,
    kind: u32,
    value: Vec<u8>,
}

#[derive(Clone)]
struct Tensor {
    name: Vec<u8>,
    dims: Vec<u64>,
    kind: u32,
    offset: u64,
}

/// Changes a GGUF file by its entries if it is one, else by its bytes.
#[must_use]
pub fn gguf_changed(rng: &mut Rng, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let Some(mut file) = read(bytes).filter(|_| rng.u8(..4) > 0) else { return super::bytes_changed(rng, bytes, other) };
    let lent = read(other);
    for _ in 0..1 << rng.u8(..3) {
        if rng.bool() {
            change_entries(rng, &mut file.entries, lent.as_ref().map_or(&[], |lent| &lent.entries));
        } else {
            change_tensors(rng, &mut file.tensors);
        }
    }
    if rng.u8(..16) == 0 {
        let len = file.data.len();
        file.data.truncate(rng.usize(..=len));
    }
    write(&file)
}

fn change_entries(rng: &mut Rng, entries: &mut Vec<Entry>, lent: &[Entry]) {
    if entries.is_empty() {
        entries.extend_from_slice(lent);
        return;
    }
    let at = rng.usize(..entries.len());
    match rng.u8(..6) {
        0 => {
            entries.remove(at);
        }
        1 => {
            let again = entries[at].clone();
            entries.push(again);
        }
        2 => entries[at].kind = rng.u32(..14),
        3 if !lent.is_empty() => {
            entries[at].value.clone_from(&lent[rng.usize(..lent.len())].value);
        }
        4 => {
            let key = &mut entries[at].key;
            if !key.is_empty() {
                let place = rng.usize(..key.len());
                key[place] = rng.u8(..);
            }
        }
        _ => change_value(rng, &mut entries[at].value),
    }
}

/// A number in a value: the value itself, a length, or a part of an array.
fn change_value(rng: &mut Rng, value: &mut [u8]) {
    let width = [1, 4, 8][rng.usize(..3)].min(value.len());
    if width == 0 {
        return;
    }
    let at = if rng.bool() { 0 } else { rng.usize(..=value.len() - width) };
    let mut old = [0; 8];
    old[..width].copy_from_slice(&value[at..at + width]);
    let new = atoms::number(rng, u64::from_le_bytes(old)).to_le_bytes();
    value[at..at + width].copy_from_slice(&new[..width]);
}

fn change_tensors(rng: &mut Rng, tensors: &mut Vec<Tensor>) {
    if tensors.is_empty() {
        return;
    }
    let at = rng.usize(..tensors.len());
    match rng.u8(..6) {
        0 => {
            tensors.remove(at);
        }
        1 => {
            let again = tensors[at].clone();
            tensors.insert(at, again);
        }
        2 => tensors[at].kind = rng.u32(..40),
        3 => tensors[at].offset = atoms::number(rng, tensors[at].offset),
        4 => {
            let other = rng.usize(..tensors.len());
            let name = tensors[other].name.clone();
            tensors[at].name = name;
        }
        _ => match tensors[at].dims.len() {
            0 => tensors[at].dims.push(1),
            count => {
                let dim = rng.usize(..count);
                tensors[at].dims[dim] = atoms::number(rng, tensors[at].dims[dim]);
            }
        },
    }
}

fn write(file: &File) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(file.version.to_le_bytes());
    out.extend((file.tensors.len() as u64).to_le_bytes());
    out.extend((file.entries.len() as u64).to_le_bytes());
    for entry in &file.entries {
        out.extend((entry.key.len() as u64).to_le_bytes());
        out.extend(&entry.key);
        out.extend(entry.kind.to_le_bytes());
        out.extend(&entry.value);
    }
    for tensor in &file.tensors {
        out.extend((tensor.name.len() as u64).to_le_bytes());
        out.extend(&tensor.name);
        out.extend(u32::try_from(tensor.dims.len()).unwrap_or(0).to_le_bytes());
        out.extend(tensor.dims.iter().flat_map(|dim| dim.to_le_bytes()));
        out.extend(tensor.kind.to_le_bytes());
        out.extend(tensor.offset.to_le_bytes());
    }
    // Data starts where the usual alignment puts it.
    out.resize(out.len().next_multiple_of(32), 0);
    out.extend(&file.data);
    out
}

fn read(bytes: &[u8]) -> Option<File> {
    let mut rest = bytes.strip_prefix(b"GGUF")?;
    let version = u32::from_le_bytes(take(&mut rest)?);
    let (tensor_count, entry_count) = (u64::from_le_bytes(take(&mut rest)?), u64::from_le_bytes(take(&mut rest)?));
    let mut entries = Vec::new();
    for _ in 0..entry_count {
        let key = string(&mut rest)?.to_vec();
        let kind = u32::from_le_bytes(take(&mut rest)?);
        let start = rest;
        skip_value(&mut rest, kind, 0)?;
        entries.push(Entry { key, kind, value: start[..start.len() - rest.len()].to_vec() });
    }
    let mut tensors = Vec::new();
    for _ in 0..tensor_count {
        let name = string(&mut rest)?.to_vec();
        let count = u32::from_le_bytes(take(&mut rest)?);
        let dims = (0..count).map(|_| take(&mut rest).map(u64::from_le_bytes)).collect::<Option<_>>()?;
        let (kind, offset) = (u32::from_le_bytes(take(&mut rest)?), u64::from_le_bytes(take(&mut rest)?));
        tensors.push(Tensor { name, dims, kind, offset });
    }
    let data = bytes.get((bytes.len() - rest.len()).next_multiple_of(32)..).unwrap_or_default().to_vec();
    Some(File { version, entries, tensors, data })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(u64::from_le_bytes(take(rest)?)).ok()?;
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}

fn skip_value(rest: &mut &[u8], kind: u32, depth: usize) -> Option<()> {
    let width = match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        8 => return string(rest).map(|_| ()),
        9 if depth < MAX_DEPTH => {
            let (kind, count) = (u32::from_le_bytes(take(rest)?), u64::from_le_bytes(take(rest)?));
            return (0..count).try_for_each(|_| skip_value(rest, kind, depth + 1));
        }
        10..=12 => 8,
        _ => return None,
    };
    *rest = rest.get(width..)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_file_is_written_as_it_was_read() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/pteron-convert/tests/gguf/data/written.gguf");
        let bytes = std::fs::read(path).expect("the file of the tests");
        assert!(write(&read(&bytes).expect("a GGUF file")) == bytes);
    }
}
