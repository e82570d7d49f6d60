//! Devices that a caller has opened.

use crate::engine::{Gpu, GpuOptions, block_on, open_adapter};
use crate::ir::DataType;
use crate::testing::{GraphBuilder, check_on, f32s, noise};

/// Opens a device without optional features and with the limits that every WebGPU device has.
fn portable_device() -> (wgpu::Adapter, wgpu::Device, wgpu::Queue) {
    let adapter = block_on(open_adapter(std::env::var("PTERON_ADAPTER").ok().as_deref())).expect("tests need an adapter");
    let (device, queue) = block_on(adapter.request_device(&wgpu::DeviceDescriptor::default())).unwrap();
    (adapter, device, queue)
}

#[test]
fn device_of_the_caller_computes_within_its_own_limits() {
    let (adapter, device, queue) = portable_device();
    let gpu = block_on(Gpu::from_device(&adapter, device.clone(), queue, &GpuOptions::default())).unwrap();
    assert!(gpu.adapter().features.is_empty(), "{:?}", gpu.adapter().features);
    assert_eq!(gpu.adapter().limits.max_buffer_size, wgpu::Limits::default().max_buffer_size);
    let caps = gpu.caps();
    assert!(!caps.subgroups && !caps.f16 && !caps.cooperative_matrix, "{caps:?}");

    let mut builder = GraphBuilder::new();
    let [a, b] = [(); 2].map(|()| builder.input(DataType::Float32, &[9, 16]));
    let weight = builder.floats(&[8, 16], &noise(1, 128));
    let (sum, alpha, none) =
        (builder.tensor(DataType::Float32, &[9, 16]), builder.int(1), builder.value(crate::ir::Value::Null));
    let out = builder.tensor(DataType::Float32, &[9, 8]);
    builder.call("aten.add.Tensor", &[a, b, alpha, sum]);
    builder.call("aten.linear.default", &[sum, weight, none, out]);
    builder.output(out);
    let calls = [9, 1, 4].map(|rows: u32| [2, 3].map(|seed| f32s(&[rows, 16], noise(seed, rows as usize * 16))).to_vec());
    check_on(&gpu, &builder, &calls, 1e-5);

    // The caller's handle is the same device: destroying it is detected.
    device.destroy();
    assert!(matches!(block_on(gpu.wait_idle()), Err(crate::Error::Lost(_))));
}
