//! `/v1/responses`.
use crate::error::ApiError;
pub(crate) async fn handle() -> ApiError { ApiError::not_found("/v1/responses") }
