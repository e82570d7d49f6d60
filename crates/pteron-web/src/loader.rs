//! A method whose weights are on their way.

use pteron::{LoadOptions, MethodMemory, Precision, StateDtype, StreamingMethod};
use pteron_llm::PartialMetadata;
use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;

use crate::convert::{bytes_of, number, to_js};
use crate::error::{OrJs, Result, error};
use crate::gpu::WebGpu;
use crate::method::WebMethod;
use crate::opening::WebHead;

/// A method whose memory is made; its weights are written as they come.
#[wasm_bindgen(js_name = Loader)]
#[derive(Debug)]
pub struct WebLoader {
    filling: StreamingMethod,
    context: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Options {
    method: Option<String>,
    choose_tokens: bool,
    max_prefill: Option<u32>,
    memory_budget: Option<f64>,
    half_cache: bool,
    exact: bool,
}

/// Bytes of GPU memory.
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
    fn from(MethodMemory { total_bytes: all, needed, state_bytes: state }: MethodMemory) -> Self {
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
struct Fault {
    key: String,
    file: usize,
    start: f64,
    length: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rehearsal {
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
        if let Some(longest) = self.max_prefill.filter(|_| self.choose_tokens) {
            let (inputs, _) = program.signature(&method).or_js()?;
            let file = inputs.first().and_then(|input| input.shape.last().copied()).unwrap_or(longest);
            input_bounds.push(Some(vec![1, longest.clamp(1, file.max(1))]));
        }
        let memory_budget = self.memory_budget.map(|bytes| bytes_of(bytes, "memoryBudget")).transpose()?;
        let fast = self.choose_tokens && !self.exact;
        Ok((
            method,
            LoadOptions {
                input_bounds,
                memory_budget,
                choose_tokens: self.choose_tokens,
                precision: if fast { Precision::Fast } else { Precision::Full },
                state_dtype: if self.half_cache { StateDtype::F16 } else { StateDtype::F32 },
                ..base
            },
        ))
    }
}

#[wasm_bindgen(js_class = Loader)]
impl WebLoader {
    /// Plans a method, makes its memory and compiles its kernels.
    ///
    /// # Errors
    /// What the engine refuses, or a device that fails.
    pub async fn open(gpu: &WebGpu, head: &WebHead, options: JsValue) -> Result<Self> {
        let options: Options = crate::convert::options(options)?;
        let (method, load) = options.load(head)?;
        let program = head.program()?;
        let context = PartialMetadata::from_program(&program).ok().and_then(|facts| facts.context_length).unwrap_or(1);
        let filling = program.load_streaming(&gpu.gpu, &method, &load).await.or_js()?;
        Ok(Self { filling, context })
    }

    /// Bytes of GPU memory that a method would use, a state's with them. Nothing is made.
    ///
    /// # Errors
    /// What the engine refuses.
    pub fn plan(gpu: &WebGpu, head: &WebHead, options: JsValue) -> Result<JsValue> {
        let (method, load) = crate::convert::options::<Options>(options)?.load(head)?;
        to_js(&Memory::from(head.program()?.plan_memory(&gpu.gpu, &method, &load).or_js()?))
    }

    /// Runs steps of the model for some seconds before its weights are there, to see how many it does a second.
    ///
    /// # Errors
    /// A method that chooses no tokens, or a device that fails.
    pub async fn rehearse(&self, seconds: f64) -> Result<JsValue> {
        // The first steps compile, and a GPU that was idle is slow.
        let mut warm = None;
        let mut last = (0.0, 0);
        let go_on = |steps: u32| {
            let now = now();
            let (begin, before) = *warm.get_or_insert((now, steps));
            last = (now - begin, steps - before);
            last.0 < seconds
        };
        self.filling.benchmark(self.context, go_on).await.or_js()?;
        let (time, steps) = last;
        let tokens_per_second = if time > 0.0 { f64::from(steps) / time } else { 0.0 };
        to_js(&Rehearsal { tokens_per_second, steps })
    }

    /// File, start and length of everything that has not come yet, in the files' order.
    #[must_use]
    pub fn needs(&self) -> Vec<f64> {
        numbers(self.filling.needs())
    }

    /// The same of constants that no checksum in the program covers, each by itself.
    #[must_use]
    pub fn unchecked(&self) -> Vec<f64> {
        numbers(self.filling.unchecked())
    }

    /// Takes bytes of a file; those that nobody needs are left out.
    ///
    /// # Errors
    /// A number that GPUs cannot hold, or a place that is none.
    pub fn write(&mut self, file: usize, start: f64, bytes: &[u8]) -> Result<()> {
        self.filling.write(file, bytes_of(start, "a place in a file")?, bytes).or_js()
    }

    /// Constants that came damaged since this was last asked.
    ///
    /// # Errors
    /// None that can happen.
    pub fn faults(&mut self) -> Result<JsValue> {
        let fault = |damaged: pteron::CorruptConstant| Fault {
            key: damaged.key,
            file: damaged.part.file,
            start: number(damaged.part.start),
            length: number(damaged.part.len),
        };
        to_js(&self.filling.take_corrupt().into_iter().map(fault).collect::<Vec<_>>())
    }

    /// Waits until the GPU has taken what was written.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn settle(&self) -> Result<()> {
        self.filling.wait_idle().await.or_js()
    }

    /// The method, now that all has come.
    ///
    /// # Errors
    /// Constants that are missing, or a device that fails.
    pub async fn finish(self) -> Result<WebMethod> {
        Ok(WebMethod { method: self.filling.finish().await.or_js()? })
    }
}

/// File, start and length of each.
fn numbers(parts: Vec<pteron::FileRange>) -> Vec<f64> {
    parts.into_iter().flat_map(|part| [number(part.file as u64), number(part.start), number(part.len)]).collect()
}

/// Seconds from some moment on.
pub(crate) fn now() -> f64 {
    let performance = js_sys::Reflect::get(&js_sys::global(), &"performance".into()).unwrap_or_default();
    let now = js_sys::Reflect::get(&performance, &"now".into()).unwrap_or_default();
    let milliseconds = now.dyn_ref::<js_sys::Function>().and_then(|now| now.call0(&performance).ok()?.as_f64());
    milliseconds.unwrap_or_else(js_sys::Date::now) / 1e3
}
