//! `/v1/messages`.
use crate::error::ApiError;
pub(crate) async fn handle() -> ApiError { ApiError::not_found("/v1/messages") }
pub(crate) async fn count_tokens() -> ApiError { ApiError::not_found("/v1/messages") }
/// Whether a path belongs to Anthropic's API.
pub(crate) fn is_route(path: &str) -> bool { path.starts_with("/v1/messages") }
