//! Calls of methods with tensors.

use std::cell::RefCell;

use pteron::{Method, Profile, State, Timing};
use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::convert::{specs, tensor_from, tensor_to, to_js};
use crate::error::{OrJs, Result, error};
use crate::loader::Memory;

/// A loaded method.
#[wasm_bindgen(js_name = Method)]
#[derive(Debug)]
pub struct WebMethod {
    pub(crate) method: Method,
}

/// The state of a method between calls.
#[wasm_bindgen(js_name = State)]
#[derive(Debug)]
pub struct WebState {
    /// `None` while a call uses it.
    state: RefCell<Option<State>>,
}

/// GPU times of a call.
#[derive(Serialize)]
pub(crate) struct Times {
    timing: &'static str,
    dispatches: Vec<DispatchTime>,
}

#[derive(Serialize)]
struct DispatchTime {
    operator: String,
    kernel: &'static str,
    microseconds: f64,
    bytes: f64,
}

impl Times {
    pub(crate) fn new(profiles: &[Profile]) -> Self {
        let inside = profiles.iter().all(|profile| profile.timing == Timing::InsidePass);
        let dispatches = profiles.iter().flat_map(|profile| {
            profile.dispatches.iter().map(|dispatch| DispatchTime {
                operator: dispatch.operator.clone(),
                kernel: dispatch.kernel,
                microseconds: profile.duration(dispatch) / 1e3,
                bytes: crate::convert::number(dispatch.bytes),
            })
        });
        Self { timing: if inside { "inside-pass" } else { "pass-each" }, dispatches: dispatches.collect() }
    }
}

pub(crate) fn memory_of(method: &Method) -> Memory {
    method.memory().into()
}

#[wasm_bindgen(js_class = Method)]
impl WebMethod {
    /// Returns the specs of the inputs.
    ///
    /// # Errors
    /// None that can happen.
    pub fn inputs(&self) -> Result<JsValue> {
        to_js(&specs(self.method.inputs()))
    }

    /// Returns the specs of the outputs, with upper bounds of their sizes.
    ///
    /// # Errors
    /// None that can happen.
    pub fn outputs(&self) -> Result<JsValue> {
        to_js(&specs(self.method.outputs()))
    }

    /// Returns the GPU memory of the method and one state, in bytes.
    ///
    /// # Errors
    /// None that can happen.
    pub fn memory(&self) -> Result<JsValue> {
        to_js(&memory_of(&self.method))
    }

    /// Creates a state with the initial values of the file.
    ///
    /// # Errors
    /// Out of GPU memory.
    #[wasm_bindgen(js_name = newState)]
    pub fn new_state(&self) -> Result<WebState> {
        Ok(WebState { state: RefCell::new(Some(self.method.new_state().or_js()?)) })
    }

    /// Calls the method with tensors `{ dtype, shape, bytes }`.
    ///
    /// # Errors
    /// Inputs that do not match the specs, or a failing device.
    pub async fn call(&self, state: &WebState, inputs: Vec<JsValue>) -> Result<Vec<JsValue>> {
        let inputs = inputs.iter().map(tensor_from).collect::<Result<Vec<_>>>()?;
        let mut own = state.take()?;
        let outputs = self.method.call(&mut own, &inputs).await.or_js();
        state.give_back(own);
        outputs?.iter().map(tensor_to).collect()
    }

    /// Calls the method and measures the GPU time of each kernel.
    ///
    /// # Errors
    /// As [`call`](Self::call), or a browser without timestamp queries.
    pub async fn profile(&self, state: &WebState, inputs: Vec<JsValue>) -> Result<JsValue> {
        let inputs = inputs.iter().map(tensor_from).collect::<Result<Vec<_>>>()?;
        let mut own = state.take()?;
        let result = self.method.call_profiled(&mut own, &inputs).await.or_js();
        state.give_back(own);
        let (outputs, profile) = result?;
        let outputs: js_sys::Array = outputs.iter().map(tensor_to).collect::<Result<Vec<_>>>()?.into_iter().collect();
        let object = js_sys::Object::new();
        js_sys::Reflect::set(&object, &"outputs".into(), &outputs)?;
        js_sys::Reflect::set(&object, &"profile".into(), &to_js(&Times::new(&profile.graphs))?)?;
        Ok(object.into())
    }
}

impl WebState {
    fn take(&self) -> Result<State> {
        self.state
            .take()
            .ok_or_else(|| error("input", "another call is using this state: wait for it, or create another state"))
    }

    fn give_back(&self, state: State) {
        *self.state.borrow_mut() = Some(state);
    }
}
