//! API keys, compared in constant time.

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};

/// The keys that clients need. Only their hashes are kept.
#[derive(Clone, Default)]
pub struct ApiKeys {
    hashes: Vec<[u8; 32]>,
}

impl std::fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiKeys({})", self.hashes.len())
    }
}

impl ApiKeys {
    /// Takes keys. Empty ones are left out.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        let keys = keys.into_iter().filter(|key| !key.is_empty());
        Self { hashes: keys.map(|key| Sha256::digest(key).into()).collect() }
    }

    /// Whether nobody needs a key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Returns the number of the key that a request has: `None` if it has none, or a wrong one. Without keys every request has number 0.
    pub(crate) fn find(&self, headers: &HeaderMap) -> Option<u64> {
        if self.hashes.is_empty() {
            return Some(0);
        }
        self.position(given(headers)?)
    }

    /// The comparison takes as long for any key of the same length: hashes are compared as a whole, and all of them.
    fn position(&self, key: &str) -> Option<u64> {
        let hash: [u8; 32] = Sha256::digest(key).into();
        let mut found = None;
        for (number, known) in (1..).zip(&self.hashes) {
            let difference = known.iter().zip(&hash).fold(0, |bits, (a, b)| bits | (a ^ b));
            found = if std::hint::black_box(difference) == 0 { Some(number) } else { found };
        }
        found
    }
}

/// The key in a request: as OpenAI's clients send it, or Anthropic's.
pub(crate) fn given(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| value.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, key)| key.trim());
    bearer.or_else(|| headers.get("x-api-key")?.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn keys_are_found_in_either_header_and_others_are_not() {
        let keys = ApiKeys::new(["one", "", "two"]);
        assert_eq!(keys.find(&headers("authorization", "Bearer two")), Some(2));
        assert_eq!(keys.find(&headers("authorization", "bearer one")), Some(1));
        assert_eq!(keys.find(&headers("x-api-key", "one")), Some(1));
        for wrong in ["Bearer three", "Bearer tw", "Basic two", "two", "Bearer "] {
            assert_eq!(keys.find(&headers("authorization", wrong)), None, "{wrong}");
        }
        assert_eq!(keys.find(&HeaderMap::new()), None);
    }

    #[test]
    fn without_keys_everybody_has_number_zero() {
        assert_eq!(ApiKeys::default().find(&HeaderMap::new()), Some(0));
        assert!(!format!("{:?}", ApiKeys::new(["secret"])).contains("secret"));
    }
}
