//! Errors as JavaScript has them: a sentence, and a code that programs can look at.

use wasm_bindgen::prelude::*;

/// What goes wrong on this side of the border.
pub(crate) type Result<T, E = JsValue> = std::result::Result<T, E>;

/// An `Error` with a code.
pub(crate) fn error(code: &str, message: &str) -> JsValue {
    let error = js_sys::Error::new(message);
    error.set_name("PteronError");
    // An object that was made here has no setter that could refuse.
    let _ = js_sys::Reflect::set(&error, &"code".into(), &code.into());
    error.into()
}

/// Something that JavaScript passed and that cannot be used.
pub(crate) fn input(message: impl AsRef<str>) -> JsValue {
    error("input", message.as_ref())
}

/// How an error of the engine looks from JavaScript.
pub(crate) trait IntoJs {
    fn into_js(self) -> JsValue;
}

impl IntoJs for pteron_gpu::Error {
    fn into_js(self) -> JsValue {
        use pteron_gpu::Error as E;
        let code = match &self {
            E::UnknownOperator { .. } | E::Operator(_) | E::NoTimestamps { .. } => "unsupported",
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
            // Which file it is, the package knows by a better name.
            E::Format { source, .. } => return self::error("bad-file", &source.to_string()),
            E::File { .. } | E::Overlap { .. } => "bad-file",
            E::NotRead(_) => "missing",
            E::NoMethod { .. } => "no-such-method",
            E::Unsupported { .. } => "unsupported",
            E::Tensor(_) | E::Input { .. } => "input",
            _ => "internal",
        };
        error(code, &self.to_string())
    }
}

impl IntoJs for pteron_llm::Error {
    fn into_js(self) -> JsValue {
        use pteron_llm::Error as E;
        let code = match self {
            E::Program(error) => return error.into_js(),
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
