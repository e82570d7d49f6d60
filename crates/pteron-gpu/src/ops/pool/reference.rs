//! Pooling on the host.

use super::{Kind, Layout, Pool};
use crate::reference::{HostData, HostTensors};

/// An element of a window: its index in the plane, and its value.
type Element = (usize, f32);

impl Pool {
    pub(super) fn pool_on_host(&self, layout: &Layout, tensors: &mut HostTensors) {
        let [input_w, inner] = [layout.input[1], layout.inner].map(|size| size as usize);
        let plane = layout.input[0] as usize * input_w;
        let x = tensors.f32(self.x).to_vec();
        let (mut values, mut indices) = (Vec::new(), Vec::new());
        for at in 0..layout.planes as usize {
            for (row, column) in (0..layout.output[0]).flat_map(|row| (0..layout.output[1]).map(move |column| (row, column)))
            {
                for channel in 0..inner {
                    let element = |index: usize| (index, x[(at * plane + index) * inner + channel]);
                    let window: Vec<Element> = self.window(layout, [row, column]).into_iter().map(element).collect();
                    if self.kind == Kind::Average {
                        values.push(self.average(layout, [row, column], &window));
                    } else {
                        let (index, value) = largest(self.first(layout, [row, column]), &window);
                        values.push(value);
                        indices.push(i32::try_from(index).unwrap_or(i32::MAX));
                    }
                }
            }
        }
        tensors.set(self.out, layout.out, HostData::F32(values));
        if let Some(tensor) = self.indices {
            tensors.set(tensor, layout.out, HostData::I32(indices));
        }
    }

    /// The positions of a window along an axis that are in the input.
    fn positions(&self, axis: usize, output: u32, size: u32) -> Vec<usize> {
        let window = &self.windows[axis];
        let start = i64::from(output) * i64::from(window.stride) - i64::from(window.padding);
        let place = |tap| usize::try_from(start + i64::from(tap) * i64::from(window.dilation)).ok();
        (0..window.kernel).filter_map(place).filter(|&place| place < size as usize).collect()
    }

    /// The indices of a window's elements in the plane.
    fn window(&self, layout: &Layout, output: [u32; 2]) -> Vec<usize> {
        let [rows, columns] = [0, 1].map(|axis| self.positions(axis, output[axis], layout.input[axis]));
        rows.iter().flat_map(|row| columns.iter().map(move |column| row * layout.input[1] as usize + column)).collect()
    }

    /// The index of a window's first position that is not before the input, which its maximum has if the window is empty.
    fn first(&self, layout: &Layout, output: [u32; 2]) -> usize {
        let [row, column] = [0, 1].map(|axis| {
            let window = &self.windows[axis];
            let start = i64::from(output[axis]) * i64::from(window.stride) - i64::from(window.padding);
            let inside = (0..).map(|tap| start + tap * i64::from(window.dilation)).find(|&place| place >= 0);
            inside.and_then(|place| usize::try_from(place).ok()).unwrap_or(0)
        });
        row * layout.input[1] as usize + column
    }

    fn average(&self, layout: &Layout, output: [u32; 2], window: &[Element]) -> f32 {
        let sum: f64 = window.iter().map(|&(_, value)| f64::from(value)).sum();
        // Windows end where the padding ends.
        let padded = |axis: usize| {
            let window = &self.windows[axis];
            let end = i64::from(layout.input[axis]) + 2 * i64::from(window.padding);
            (end - i64::from(output[axis]) * i64::from(window.stride)).min(window.kernel.into())
        };
        let count =
            if self.include_padding { padded(0) * padded(1) } else { i64::try_from(window.len()).unwrap_or(i64::MAX) };
        let divisor = self.divisor.unwrap_or(count);
        if window.is_empty() { 0.0 } else { crate::matmul::to_f32(sum / divisor as f64) }
    }
}

/// The first of the largest elements; the last NaN if there is one.
fn largest(first: usize, window: &[Element]) -> Element {
    let first = (first, f32::NEG_INFINITY);
    window.iter().fold(first, |best, &element| if element.1 > best.1 || element.1.is_nan() { element } else { best })
}
