//! Base64 as tiktoken files and `tokenizer.json` use it: the standard alphabet, padded.

#[cfg(test)]
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

/// Decodes a text; `None` if it is not base64.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|&&byte| byte == b'=').count();
    if padding > 2 {
        return None;
    }
    let digits = text.get(..text.len() - padding)?;
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in digits.chunks(4) {
        let mut word = 0;
        for position in 0..4 {
            word = word << 6 | group.get(position).map_or(Some(0), |&digit| value(digit))?;
        }
        let [_, first, second, third] = word.to_be_bytes();
        bytes.extend([first, second, third].into_iter().take(group.len() - 1));
    }
    Some(bytes)
}

/// Encodes bytes.
#[cfg(test)]
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| group.get(at).copied().unwrap_or(0);
        let word = u32::from_be_bytes([0, byte(0), byte(1), byte(2)]);
        for position in 0..4u32 {
            let digit = ALPHABET[(word >> (18 - 6 * position) & 63) as usize];
            text.push(if position as usize <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_round_trip() {
        for len in 0..=64u8 {
            let bytes: Vec<u8> = (0..len).map(|i| i.wrapping_mul(37) ^ 0xA5).collect();
            assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
        }
        assert_eq!(encode(b"IQ"), "SVE=");
        assert_eq!(decode(b"IQ=="), Some(b"!".to_vec()));
    }

    #[test]
    fn malformed_base64_is_rejected() {
        for text in ["I", "IQ", "IQ=", "IQ=a", "====", "I===", "IQ= ", "äääa", "A=AA"] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }
}
