//! Changes of texts, by words and lines.

use fastrand::Rng;

use super::json_changed;

/// Between a file and the prompt it is tried with.
const SEPARATOR: u8 = 0;
/// Texts do not grow beyond this by repetition.
const MAX_LEN: usize = 8192;

/// Moves, doubles, drops and exchanges the words of a text; sometimes its bytes.
#[must_use]
pub fn text_changed(rng: &mut Rng, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    if rng.u8(..4) == 0 {
        return super::bytes_changed(rng, bytes, other);
    }
    let (own, lent) = (words(bytes), words(other));
    let mut parts = own.clone();
    for _ in 0..1 << rng.u8(..3) {
        let (at, to) = (rng.usize(..=parts.len()), rng.usize(..=parts.len()));
        match rng.u8(..6) {
            0 if at < parts.len() => {
                parts.remove(at);
            }
            1 if at < parts.len() => {
                let again = parts[at];
                parts.insert(to, again);
            }
            2 if at < parts.len() && to < parts.len() => parts.swap(at, to),
            3 if at < to && bytes.len() < MAX_LEN => {
                let block = parts[at..to].repeat(rng.usize(1..8));
                parts.splice(at..at, block);
            }
            4 if at < parts.len() && !own.is_empty() => parts[at] = own[rng.usize(..own.len())],
            _ => {
                if !lent.is_empty() {
                    let from = rng.usize(..lent.len());
                    let end = (from + rng.usize(1..12)).min(lent.len());
                    parts.splice(at..at, lent[from..end].iter().copied());
                }
            }
        }
    }
    parts.concat()
}

/// Runs of letters and digits, and single other bytes.
fn words(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.chunk_by(|a, b| [a, b].iter().all(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')).collect()
}

/// Changes a file, the prompt after it, or both.
#[must_use]
pub fn with_prompt(
    rng: &mut Rng,
    bytes: &[u8],
    other: &[u8],
    file_changed: fn(&mut Rng, &[u8], &[u8]) -> Vec<u8>,
) -> Vec<u8> {
    let ((file, prompt), (other_file, other_prompt)) = (split(bytes), split(other));
    let what = rng.u8(..8);
    let mut changed = if what == 0 { file.to_vec() } else { file_changed(rng, file, other_file) };
    changed.push(SEPARATOR);
    if what < 3 {
        changed.extend(text_changed(rng, prompt, other_prompt));
    } else {
        changed.extend_from_slice(prompt);
    }
    changed
}

/// A file and the prompt after it.
#[must_use]
pub fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().rposition(|&byte| byte == SEPARATOR) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[]),
    }
}

/// Changes a JSON file, the prompt after it, or both.
#[must_use]
pub fn json_with_prompt(rng: &mut Rng, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    with_prompt(rng, bytes, other, json_changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_its_prompt_stay_apart() {
        assert_eq!(split(b"{}\0a\0b"), (&b"{}\0a"[..], &b"b"[..]));
        assert_eq!(split(b"{}"), (&b"{}"[..], &b""[..]));
        let mut rng = Rng::with_seed(1);
        let changed = with_prompt(&mut rng, b"12\0ab", b"", |_, file, _| file.repeat(2));
        assert!(split(&changed).0.starts_with(b"12"));
    }

    #[test]
    fn words_add_up_to_the_text() {
        let text = "{% if message.role == 'user' %}é{{ x_1 }}".as_bytes();
        assert_eq!(words(text).concat(), text);
        assert!(words(text).contains(&&b"x_1"[..]));
    }
}
