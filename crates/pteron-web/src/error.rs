//! JavaScript errors: a message, and a code to match on.

use wasm_bindgen::prelude::*;

/// A result with a JavaScript error.
pub(crate) type Result<T, E = JsValue> = std::result::Result<T, E>;

/// Creates a `PteronError` with a code.
pub(crate) fn error(code: &str, message: &str) -> JsValue {
    let error = js_sys::Error::new(message);
    error.set_name("PteronError");
    // Setting a property of a new object cannot fail.
    let _ = js_sys::Reflect::set(&error, &"code".into(), &code.into());
    error.into()
}

/// An invalid argument.
pub(crate) fn input(message: impl AsRef<str>) -> JsValue {
    error("input", message.as_ref())
}

/// Converts an engine error to a JavaScript error.
pub(crate) trait IntoJs {
    fn into_js(self) -> JsValue;
}

impl IntoJs for pteron_gpu::Error {
    fn into_js(self) -> JsValue {
        use pteron_gpu::Error as E;
        let code = match &self {
            E::UnknownOperator { .. } | E::UnsupportedOperators(_) | E::Operator(_) | E::NoTimestamps { .. } => {
                "unsupported"
            }
            E::Input { .. } | E::Capacity { .. } => "input",
            E::Tensor { .. } => "bad-file",
            E::MissingConstant { .. } => "missing",
            E::TooLarge { .. } | E::OutOfMemory(_) => "out-of-memory",
            E::NoAdapter(_) => "no-webgpu",
            E::Lost(_) => "device-lost",
            _ => "device",
        };
        error(code, &self.to_string())
    }
}

impl IntoJs for pteron::Error {
    fn into_js(self) -> JsValue {
        use pteron::Error as E;
        let code = match self {
            E::Gpu(error) => return error.into_js(),
            // The package adds the file's name.
            E::Format { source, .. } => return self::error("bad-file", &source.to_string()),
            E::File { .. } | E::Overlap { .. } => "bad-file",
            E::NotRead(_) => "missing",
            E::NoMethod { .. } => "no-such-method",
            E::Unsupported { .. } | E::UnsupportedOperators(_) => "unsupported",
            E::Tensor(_) | E::Input { .. } => "input",
            E::TooLarge { .. } | E::GpuOutOfMemory(_) | E::OutOfMemory(_) => "out-of-memory",
            E::DeviceLost(_) => "device-lost",
            _ => "internal",
        };
        error(code, &self.to_string())
    }
}

impl IntoJs for pteron_llm::Error {
    fn into_js(self) -> JsValue {
        use pteron_llm::Error as E;
        let code = match self {
            E::DeviceLost(error) | E::OutOfMemory(error) | E::Unsupported(error) | E::Input(error) | E::Program(error) => {
                return error.into_js();
            }
            E::Tokenizer(_) | E::Template(_) => "tokenizer",
            E::Metadata(_) | E::NotALanguageModel(_) => "unsupported",
            E::Sampling(_)
            | E::Stop(_)
            | E::EmptyPrompt
            | E::PromptTooLong { .. }
            | E::TokenOutOfRange { .. }
            | E::RewindPastEnd { .. } => "input",
            _ => "internal",
        };
        error(code, &self.to_string())
    }
}

/// `?` for errors of the engine.
pub(crate) trait OrJs<T> {
    fn or_js(self) -> Result<T>;
}

impl<T, E: IntoJs> OrJs<T> for Result<T, E> {
    fn or_js(self) -> Result<T> {
        self.map_err(IntoJs::into_js)
    }
}
