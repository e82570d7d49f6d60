//! The chat page at `/`: one file, without anything from elsewhere.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

const PAGE: &str = include_str!("page.html");

/// Answers with the page. Its policy allows the script and the style in it, by their hashes, and requests to this server.
pub(crate) async fn handle() -> Response {
    let policy = format!(
        "default-src 'none'; connect-src 'self'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        hash("script"),
        hash("style"),
    );
    let mut response = ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], PAGE).into_response();
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::try_from(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// The hash of the content of an element, as a policy names it.
fn hash(element: &str) -> String {
    let content = PAGE.split_once(&format!("<{element}>")).and_then(|(_, rest)| rest.split_once(&format!("</{element}>")));
    format!("sha256-{}", base64(&Sha256::digest(content.map_or("", |(content, _)| content))))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |chunk: &[u8]| {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | usize::from(chunk.get(at).copied().unwrap_or(0)));
        let digit = |at: usize| if at <= chunk.len() { char::from(DIGITS[bits >> (18 - 6 * at) & 63]) } else { '=' };
        [digit(0), digit(1), digit(2), digit(3)]
    };
    bytes.chunks(3).flat_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads_the_last_group() {
        assert_eq!([&b"M"[..], b"Ma", b"Man", b"Many"].map(base64), ["TQ==", "TWE=", "TWFu", "TWFueQ=="]);
    }

    #[test]
    fn the_page_has_one_script_one_style_and_no_handlers_in_attributes() {
        assert_eq!((PAGE.matches("<script").count(), PAGE.matches("<style").count()), (1, 1));
        assert!(
            PAGE.contains("<script>") && PAGE.contains("<style>"),
            "elements without attributes, as their hashes assume"
        );
        for forbidden in ["onclick", "style=", "http://", "https://", "innerHTML"] {
            assert!(!PAGE.contains(forbidden), "{forbidden}");
        }
    }
}
