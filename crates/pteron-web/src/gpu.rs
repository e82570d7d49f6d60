//! WebGPU devices.

use pteron::{Gpu, GpuOptions};
use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::convert::{number, to_js};
use crate::error::{OrJs, Result};

/// A WebGPU device.
#[wasm_bindgen(js_name = Gpu)]
#[derive(Debug)]
pub struct WebGpu {
    pub(crate) gpu: Gpu,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    name: &'a str,
    driver: &'a str,
    backend: &'a str,
    kind: &'a str,
    software: bool,
    features: &'a [String],
    max_buffer_size: f64,
    max_binding_size: f64,
}

#[wasm_bindgen(js_class = Gpu)]
impl WebGpu {
    /// Requests a device.
    ///
    /// # Errors
    /// A browser without WebGPU, or without a usable adapter.
    pub async fn open() -> Result<Self> {
        Ok(Self { gpu: Gpu::open(&GpuOptions::default()).await.or_js()? })
    }

    /// Describes the adapter.
    ///
    /// # Errors
    /// None that can happen.
    pub fn summary(&self) -> Result<JsValue> {
        let adapter = self.gpu.adapter();
        to_js(&Summary {
            name: &adapter.name,
            driver: &adapter.driver,
            backend: &adapter.backend,
            kind: &adapter.kind,
            software: adapter.software,
            features: &adapter.features,
            max_buffer_size: number(adapter.limits.max_buffer_size),
            max_binding_size: number(adapter.limits.max_storage_buffer_binding_size),
        })
    }

    /// Resolves with the reason when the device is lost.
    // Not an async function, which would borrow this object until the device is lost.
    pub fn lost(&self) -> js_sys::Promise {
        let gpu = self.gpu.clone();
        wasm_bindgen_futures::future_to_promise(async move { Ok(gpu.lost().await.into()) })
    }

    /// Destroys the device; its users see a lost device.
    pub fn destroy(&self) {
        self.gpu.destroy();
    }
}
