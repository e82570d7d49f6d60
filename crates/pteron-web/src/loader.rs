//! Streaming load of a method.

use pteron::{LoadOptions, MethodMemory, Precision, StateDtype, StreamingMethod};
use pteron_llm::{PartialMetadata, benchmark_decode, with_token_sampling};
use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;

use crate::convert::{bytes_of, number, to_js};
use crate::error::{OrJs, Result, error};
use crate::gpu::WebGpu;
use crate::head::WebHead;
use crate::method::WebMethod;

/// A method with its memory allocated, whose weights are uploaded as they arrive.
#[wasm_bindgen(js_name = Loader)]
#[derive(Debug)]
pub struct WebLoader {
    streaming: StreamingMethod,
    context: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Options {
    method: Option<String>,
    language_model: bool,
    max_prefill: Option<u32>,
    memory_budget: Option<f64>,
    kv_dtype: KvDtype,
    exact: bool,
}

/// The element type of the KV cache.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KvDtype {
    #[default]
    Auto,
    F16,
    F32,
}

impl From<KvDtype> for StateDtype {
    fn from(dtype: KvDtype) -> Self {
        match dtype {
            KvDtype::Auto => Self::Auto,
            KvDtype::F16 => Self::F16,
            KvDtype::F32 => Self::F32,
        }
    }
}

/// GPU memory in bytes.
#[derive(Serialize)]
pub(crate) struct Memory {
    constants: f64,
    activations: f64,
    other: f64,
    state: f64,
    total: f64,
    largest: f64,
}

impl From<MethodMemory> for Memory {
    fn from(MethodMemory { total_bytes: all, needed, state_bytes: state, .. }: MethodMemory) -> Self {
        let other = all.saturating_sub(needed.constant_bytes).saturating_sub(needed.activation_bytes);
        Self {
            constants: number(needed.constant_bytes),
            activations: number(needed.activation_bytes),
            other: number(other),
            state: number(state),
            total: number(all.saturating_add(state)),
            largest: number(needed.largest_bytes),
        }
    }
}

#[derive(Serialize)]
struct Corrupt {
    key: String,
    file: usize,
    start: f64,
    length: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Benchmark {
    tokens_per_second: f64,
    steps: u32,
}

impl Options {
    fn load(&self, head: &WebHead) -> Result<(String, LoadOptions)> {
        let program = head.program()?;
        let first = || program.methods().next().map(str::to_owned);
        let method = match &self.method {
            Some(method) => method.clone(),
            None => {
                let forward = program.methods().find(|name| *name == "forward").map(str::to_owned);
                forward.or_else(first).ok_or_else(|| error("unsupported", "the program has no method that computes"))?
            }
        };
        let base = if self.exact { LoadOptions::exact() } else { LoadOptions::default() };
        let mut input_bounds = Vec::new();
        if let Some(longest) = self.max_prefill.filter(|_| self.language_model) {
            let (inputs, _) = program.signature(&method).or_js()?;
            let file = inputs.first().and_then(|input| input.shape.last().copied()).unwrap_or(longest);
            input_bounds.push(Some(vec![1, longest.clamp(1, file.max(1))]));
        }
        let memory_budget = self.memory_budget.map(|bytes| bytes_of(bytes, "memoryBudget")).transpose()?;
        let fast = self.language_model && !self.exact;
        let load = base
            .with_input_bounds(input_bounds)
            .with_memory_budget(memory_budget)
            .with_precision(if fast { Precision::Fast } else { Precision::Full })
            .with_state_dtype(self.kv_dtype.into());
        if !self.language_model {
            return Ok((method, load));
        }
        PartialMetadata::from_signature(&program, &method).or_js()?;
        Ok((method, with_token_sampling(load).or_js()?))
    }
}

#[wasm_bindgen(js_class = Loader)]
impl WebLoader {
    /// Plans a method, allocates its memory and compiles its kernels.
    ///
    /// # Errors
    /// A method that cannot run here, or a failing device.
    pub async fn open(gpu: &WebGpu, head: &WebHead, options: JsValue) -> Result<Self> {
        let options: Options = crate::convert::options(options)?;
        let (method, load) = options.load(head)?;
        let program = head.program()?;
        let context = PartialMetadata::from_program(&program).ok().and_then(|metadata| metadata.context_length).unwrap_or(1);
        let streaming = program.load_streaming(&gpu.gpu, &method, &load).await.or_js()?;
        Ok(Self { streaming, context })
    }

    /// Computes the GPU memory of a method and one state, in bytes. Allocates nothing.
    ///
    /// # Errors
    /// A method that cannot run here.
    pub fn plan(gpu: &WebGpu, head: &WebHead, options: JsValue) -> Result<JsValue> {
        let (method, load) = crate::convert::options::<Options>(options)?.load(head)?;
        to_js(&Memory::from(head.program()?.plan_memory(&gpu.gpu, &method, &load).or_js()?))
    }

    /// Benchmarks decode steps for some seconds on empty weights.
    ///
    /// # Errors
    /// A method that is not a language model, or a failing device.
    pub async fn benchmark(&self, seconds: f64) -> Result<JsValue> {
        // The first steps compile, and a GPU that was idle is slow.
        let mut warm = None;
        let mut last = (0.0, 0);
        let go_on = |steps: u32| {
            let now = now();
            let (begin, before) = *warm.get_or_insert((now, steps));
            last = (now - begin, steps - before);
            last.0 < seconds
        };
        benchmark_decode(&self.streaming, self.context, go_on).await.or_js()?;
        let (time, steps) = last;
        let tokens_per_second = if time > 0.0 { f64::from(steps) / time } else { 0.0 };
        to_js(&Benchmark { tokens_per_second, steps })
    }

    /// Returns file, start and length of every range that is not loaded yet, in file order.
    #[must_use]
    pub fn needs(&self) -> Vec<f64> {
        numbers(self.streaming.needs())
    }

    /// Returns file, start and length of every constant that no checksum in the program covers.
    #[must_use]
    pub fn unchecked(&self) -> Vec<f64> {
        numbers(self.streaming.unchecked())
    }

    /// Uploads bytes of a file, ignoring those that no constant needs.
    ///
    /// # Errors
    /// A value that the GPU cannot represent, or an offset that is not a whole number.
    pub fn write(&mut self, file: usize, start: f64, bytes: &[u8]) -> Result<()> {
        self.streaming.write(file, bytes_of(start, "an offset in a file")?, bytes).or_js()
    }

    /// Returns the constants that did not match their checksums since the last call.
    ///
    /// # Errors
    /// None that can happen.
    #[wasm_bindgen(js_name = takeCorrupt)]
    pub fn take_corrupt(&mut self) -> Result<JsValue> {
        let corrupt = |damaged: pteron::CorruptConstant| Corrupt {
            key: damaged.key,
            file: damaged.part.file,
            start: number(damaged.part.start),
            length: number(damaged.part.len),
        };
        to_js(&self.streaming.take_corrupt().into_iter().map(corrupt).collect::<Vec<_>>())
    }

    /// Waits until the GPU has finished all uploads.
    ///
    /// # Errors
    /// A failing device.
    #[wasm_bindgen(js_name = waitIdle)]
    pub async fn wait_idle(&self) -> Result<()> {
        self.streaming.wait_idle().await.or_js()
    }

    /// Returns the method once every constant is loaded.
    ///
    /// # Errors
    /// Missing constants, or a failing device.
    pub async fn finish(self) -> Result<WebMethod> {
        Ok(WebMethod { method: self.streaming.finish().await.or_js()? })
    }
}

/// Flattens ranges to file, start and length.
fn numbers(parts: Vec<pteron::FileRange>) -> Vec<f64> {
    parts.into_iter().flat_map(|part| [number(part.file as u64), number(part.start), number(part.len)]).collect()
}

/// Returns a monotonic time in seconds.
pub(crate) fn now() -> f64 {
    let performance = js_sys::Reflect::get(&js_sys::global(), &"performance".into()).unwrap_or_default();
    let now = js_sys::Reflect::get(&performance, &"now".into()).unwrap_or_default();
    let milliseconds = now.dyn_ref::<js_sys::Function>().and_then(|now| now.call0(&performance).ok()?.as_f64());
    milliseconds.unwrap_or_else(js_sys::Date::now) / 1e3
}
