//! Errors: those that clients read, in the shape of the API they use, and those of the server itself.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use pteron_format::EscapedText;
use serde_json::{Value, json};

use crate::backend::BackendError;
use crate::messages;

/// Why a server cannot start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}; choose another --host or --port")]
    Listen {
        /// The address.
        address: String,
        /// The reason.
        source: std::io::Error,
    },
    /// Threads or timers cannot be started.
    #[error("the server's threads could not be started: {0}")]
    Runtime(std::io::Error),
    /// Two models have one name.
    #[error("two models are called {0:?}: give one of them another name with --alias")]
    SameName(String),
    /// No model was given.
    #[error("there is no model to serve")]
    NoModel,
    /// A model could not be loaded when the server started.
    #[error("{model}: {reason}")]
    Load {
        /// The model.
        model: String,
        /// The reason.
        reason: String,
    },
    /// The certificate or the key of TLS.
    #[error("TLS: {0}")]
    Tls(String),
    /// An origin that no browser sends.
    #[error("--cors {0:?}: give an origin, such as https://example.org, or *")]
    Origin(String),
}

/// An error that a client reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: Option<&'static str>,
    pub(crate) param: Option<String>,
    pub(crate) message: String,
    pub(crate) retry_after: Option<u32>,
}

/// Seconds after which a client may try again when the queue is full, and while a model loads.
const RETRY_QUEUE: u32 = 1;
const RETRY_LOADING: u32 = 5;

impl ApiError {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, code: None, param: None, message: message.into(), retry_after: None }
    }

    fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn at(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// A field with a wrong value. `message` continues the field's name.
    pub(crate) fn invalid(param: &str, message: impl std::fmt::Display) -> Self {
        let message = format!("{} {message}", EscapedText::sentence(param));
        Self::new(StatusCode::BAD_REQUEST, message).with_code("invalid_value").at(param)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn unsupported(param: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message).with_code("unsupported_value").at(param)
    }

    pub(crate) fn unauthorized(given: bool) -> Self {
        let message = match given {
            true => "the API key is wrong",
            false => "an API key is needed: send the header Authorization: Bearer KEY",
        };
        Self::new(StatusCode::UNAUTHORIZED, message).with_code("invalid_api_key")
    }

    pub(crate) fn forbidden_origin() -> Self {
        let message = "this server takes no requests from pages of other origins, unless it is started with --cors";
        Self::new(StatusCode::FORBIDDEN, message).with_code("forbidden_origin")
    }

    pub(crate) fn unknown_model(name: &str, known: &[String]) -> Self {
        let known = known.join(", ");
        let message = format!("there is no model {:?}; there is {known}", EscapedText::name(name));
        Self::new(StatusCode::NOT_FOUND, message).with_code("model_not_found").at("model")
    }

    /// A model that is served and not loaded.
    pub(crate) fn not_loaded(name: &str, status: &str) -> Self {
        let message = format!("the model {name} is {status}: it must be loaded first, with POST /models/load");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message).with_code("model_not_loaded").at("model")
    }

    pub(crate) fn forbidden_administration() -> Self {
        let message =
            "this server loads and unloads nothing for its clients: it was started without keys for that (--admin-key-file)";
        Self::new(StatusCode::FORBIDDEN, message).with_code("administration_disabled")
    }

    /// A model that is not served, and that the catalog does not have.
    pub(crate) fn not_found_model(unknown: &Self, reason: &str) -> Self {
        Self {
            message: format!("{}, and it cannot be added: {}", unknown.message, EscapedText::sentence(reason)),
            ..unknown.clone()
        }
    }

    pub(crate) fn not_found(path: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is nothing at {}", EscapedText::sentence(path)))
            .with_code("not_found")
    }

    pub(crate) fn method_not_allowed(method: &str, path: &str) -> Self {
        let message = format!("{} does not take {method}", EscapedText::sentence(path));
        Self::new(StatusCode::METHOD_NOT_ALLOWED, message).with_code("method_not_allowed")
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("the request has more than the {limit} bytes that this server takes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, message).with_code("request_too_large")
    }

    pub(crate) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time").with_code("request_timeout")
    }

    pub(crate) fn busy(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, message);
        error.with_code("rate_limit_exceeded").retry_after(RETRY_QUEUE)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, message);
        error.with_code("model_unavailable").retry_after(RETRY_LOADING)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message).with_code("internal_error")
    }

    /// The kind, as OpenAI names it.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            408 => "timeout_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            503 => "service_unavailable_error",
            _ => "server_error",
        }
    }

    /// As OpenAI's clients read it.
    pub(crate) fn openai(&self) -> Value {
        json!({ "error": { "message": self.message, "type": self.kind(), "param": self.param, "code": self.code } })
    }

    /// As Anthropic's clients read it.
    pub(crate) fn anthropic(&self) -> Value {
        let kind = match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            503 => "overloaded_error",
            _ => "api_error",
        };
        json!({ "type": "error", "error": { "type": kind, "message": self.message } })
    }

    /// A response with this body, which one of the functions above has made.
    pub(crate) fn respond(&self, body: &Value) -> Response {
        let mut response = json_response(self.status, body);
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    /// A response in the form of the API that a path belongs to.
    pub(crate) fn respond_at(&self, path: &str) -> Response {
        self.respond(&if messages::is_route(path) { self.anthropic() } else { self.openai() })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.respond(&self.openai())
    }
}

impl From<BackendError> for ApiError {
    fn from(error: BackendError) -> Self {
        let message = error.to_string();
        match error {
            BackendError::QueueFull(_) => Self::busy(message),
            BackendError::PromptTooLong(_) => Self::bad_request(message).with_code("context_length_exceeded"),
            BackendError::Invalid(_) => Self::bad_request(message),
            BackendError::UnknownAdapter(_) => Self::new(StatusCode::NOT_FOUND, message).with_code("model_not_found"),
            BackendError::Draining | BackendError::Lost(_) => Self::unavailable(message),
            BackendError::DeadlineExceeded => Self::new(StatusCode::REQUEST_TIMEOUT, message).with_code("request_timeout"),
            BackendError::Generation(_) => Self::internal(message),
        }
    }
}

/// A response of JSON.
pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response {
    let content = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    (status, [content], body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_shape_of_the_api_and_name_the_field() {
        let error = ApiError::invalid("temperature", "must be a number from 0 to 2");
        assert_eq!(
            error.openai(),
            json!({ "error": {
                "message": "temperature must be a number from 0 to 2",
                "type": "invalid_request_error",
                "param": "temperature",
                "code": "invalid_value",
            } })
        );
        assert_eq!(error.anthropic()["error"]["type"], "invalid_request_error");
        let response = ApiError::busy("the queue is full").into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }

    #[test]
    fn names_of_clients_are_escaped_in_sentences() {
        let error = ApiError::unknown_model("a\u{1b}[2J", &["m".to_owned()]);
        assert!(!error.message.contains('\u{1b}'), "{}", error.message);
    }
}
