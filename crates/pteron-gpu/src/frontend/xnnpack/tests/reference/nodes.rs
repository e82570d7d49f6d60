//! Functions, conversions, products and convolutions.

use pteron_format::xnnpack as file;

use super::{Content, Interpreter, erf};

impl Interpreter<'_> {
    pub(super) fn unary(
        &mut self,
        op: file::UnaryOp,
        input: file::ValueId,
        output: file::ValueId,
        range: Option<file::OutputRange>,
    ) {
        use file::UnaryOp as Op;
        if matches!(op, Op::Clamp | Op::Copy) && self.int8(input) {
            let (low, high) = self.bounds(output, range);
            let mut x = self.get(input);
            x.numbers.iter_mut().for_each(|q| *q = q.clamp(low, high));
            self.values[output.index()] = Some(x);
            return;
        }
        let function = |x: f64| match op {
            Op::Abs => x.abs(),
            Op::Ceiling => x.ceil(),
            Op::Clamp | Op::Copy => x,
            Op::Cos => x.cos(),
            Op::Elu { alpha } => {
                if x < 0.0 {
                    f64::from(alpha) * x.exp_m1()
                } else {
                    x
                }
            }
            Op::Exp => x.exp(),
            Op::Floor => x.floor(),
            Op::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
            Op::HardSwish => x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
            Op::LeakyRelu { slope } => {
                if x < 0.0 {
                    x * f64::from(slope)
                } else {
                    x
                }
            }
            Op::Log => x.ln(),
            Op::Negate => -x,
            Op::ReciprocalSquareRoot => x.sqrt().recip(),
            Op::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Op::Sin => x.sin(),
            Op::Square => x * x,
            Op::SquareRoot => x.sqrt(),
            Op::Tanh => x.tanh(),
        };
        let mut x = self.real(input);
        x.numbers.iter_mut().for_each(|x| *x = function(*x));
        self.put(output, x, range);
    }

    pub(super) fn binary(
        &mut self,
        op: file::BinaryOp,
        inputs: [file::ValueId; 2],
        output: file::ValueId,
        range: Option<file::OutputRange>,
    ) {
        use file::BinaryOp as Op;
        let int8 = self.int8(inputs[0]);
        let integers = int8 && matches!(op, Op::Add | Op::Subtract | Op::Multiply);
        let [a, b] = inputs.map(|input| if integers { self.get(input) } else { self.real(input) });
        let rank = a.dims.len().max(b.dims.len());
        let dim =
            |content: &Content, axis: usize| (axis + content.dims.len()).checked_sub(rank).map_or(1, |at| content.dims[at]);
        let dims: Vec<usize> = (0..rank).map(|axis| dim(&a, axis).max(dim(&b, axis))).collect();
        if !integers {
            let result = Content::of(dims, |index| {
                let (a, b) = (a.broadcast(index), b.broadcast(index));
                match op {
                    Op::Add => a + b,
                    Op::Divide => a / b,
                    Op::Maximum => a.max(b),
                    Op::Minimum => a.min(b),
                    Op::Multiply => a * b,
                    Op::PRelu => {
                        if a < 0.0 {
                            a * b
                        } else {
                            a
                        }
                    }
                    Op::Subtract => a - b,
                }
            });
            return self.put(output, result, range);
        }
        let [(sa, za), (sb, zb), (so, zo)] = [inputs[0], inputs[1], output].map(|id| self.pair(id).unwrap());
        let (low, high) = self.bounds(output, range);
        let result = Content::of(dims, |index| {
            let (qa, qb) = (a.broadcast(index) as i64, b.broadcast(index) as i64);
            if op == Op::Multiply {
                let product = (qa - i64::from(za)) * (qb - i64::from(zb));
                return self.requantised(output, range, product as f64, sa * sb / so);
            }
            let (ra, rb) = (sa / so, sb / so);
            let shift = 20 - (i64::from(ra.max(rb).to_bits() >> 23) - 127);
            let fixed = |ratio: f32| f64::from(ratio * 2.0f32.powi(shift as i32)).round_ties_even() as i64;
            let (ma, mb) = (fixed(ra), if op == Op::Subtract { -fixed(rb) } else { fixed(rb) });
            let sum = (1 << (shift - 1)) - ma * i64::from(za) - mb * i64::from(zb) + ma * qa + mb * qb;
            (((sum >> shift) + i64::from(zo)) as f64).clamp(-128.0, 127.0).clamp(low, high)
        });
        self.values[output.index()] = Some(result);
    }

    /// XNNPACK computes convolutions of single pixels as layers, whatever the file says of their rows.
    fn is_read_as_rows_of_pixels(&self, id: file::ValueId) -> bool {
        self.graph.nodes.iter().any(|node| match &node.kind {
            file::NodeKind::Convolution(it) => {
                let one = |of: file::Spatial| of == file::Spatial { height: 1, width: 1 };
                let direct = it.kind == file::ConvolutionKind::Direct && it.groups == 1;
                it.input == id && direct && one(it.kernel) && one(it.stride) && it.padding == file::Padding::default()
            }
            _ => false,
        })
    }

    pub(super) fn convert(&mut self, input: file::ValueId, output: file::ValueId) {
        if let Some(file::Quantization::PerToken { row_dims }) = self.info(output).quantization {
            let mut x = self.get(input);
            let row_dims = if self.is_read_as_rows_of_pixels(output) { 1 } else { row_dims as usize };
            let row: usize = x.dims.iter().rev().take(row_dims).product();
            for row in x.numbers.chunks_exact_mut(row) {
                let low = row.iter().fold(0.0f32, |low, &x| low.min(x as f32));
                let high = row.iter().fold(0.0f32, |high, &x| high.max(x as f32));
                let s = if low == high { 1.0 } else { 255.0 / (high - low) };
                let (a, b) = (low * s, high * s);
                let z = if (-128.0 + a) + (127.0 + b) > 0.0 { -128.0 - a } else { 127.0 - b };
                let z = z.clamp(-128.0, 127.0).round_ties_even();
                row.iter_mut().for_each(|x| *x = f64::from(((*x as f32 * s).round_ties_even() + z).clamp(-128.0, 127.0)));
                x.rows.push((s, z));
            }
            self.values[output.index()] = Some(x);
            return;
        }
        if self.int8(input) && self.int8(output) {
            let ((si, zi), (so, zo)) = (self.pair(input).unwrap(), self.pair(output).unwrap());
            let m = f64::from(256.0 * (si / so)).round_ties_even() as i64;
            let mut x = self.get(input);
            for q in &mut x.numbers {
                let sum = i64::from(zo) * 256 - m * i64::from(zi) + 128 + *q as i64 * m;
                *q = ((sum >> 8) as f64).clamp(-128.0, 127.0);
            }
            self.values[output.index()] = Some(x);
            return;
        }
        let x = self.real(input);
        self.put(output, x, None);
    }

    pub(super) fn fully_connected(
        &mut self,
        input: file::ValueId,
        (filter, transposed): (file::ValueId, bool),
        bias: Option<file::ValueId>,
        output: file::ValueId,
        range: Option<file::OutputRange>,
    ) {
        let (x, w) = (self.get(input), self.get(filter));
        let [n, k] = if transposed { [w.dims[1], w.dims[0]] } else { [w.dims[0], w.dims[1]] };
        let weight = |n: usize, k: usize| if transposed { w.at(&[k, n]) } else { w.at(&[n, k]) };
        let scales = if self.info(filter).dtype.is_quantized() { self.scales(filter, n) } else { Vec::new() };
        let bias = bias.map(|bias| self.get(bias).numbers);
        let bias = |n: usize| bias.as_ref().map_or(0.0, |bias| bias[n]);
        let mut dims = x.dims.clone();
        *dims.last_mut().unwrap() = n;
        let mut numbers = Vec::new();
        for (row, x_row) in x.numbers.chunks_exact(k).enumerate() {
            for n in 0..n {
                let groups = if scales.is_empty() { 1 } else { scales.len() / w.dims[usize::from(transposed)] };
                let group = k / groups;
                numbers.push(match self.info(input).dtype {
                    file::DataType::QdInt8 if groups > 1 || matches!(self.info(filter).dtype, file::DataType::QbInt4) => {
                        let (s, z) = x.rows[row];
                        let part =
                            |g: usize, of: &dyn Fn(usize) -> f64| (g * group..(g + 1) * group).map(of).sum::<f64>() as f32;
                        let scale = |g: usize| scales[n * groups + g];
                        let mut y = -z * (0..groups).map(|g| part(g, &|k| weight(n, k)) * scale(g)).sum::<f32>();
                        (0..groups).for_each(|g| y += part(g, &|k| x_row[k] * weight(n, k)) * scale(g));
                        f64::from(y * (1.0 / s)) + bias(n)
                    }
                    file::DataType::QdInt8 => {
                        let (s, z) = x.rows[row];
                        let sum: f64 = (0..k).map(|k| (x_row[k] - f64::from(z)) * weight(n, k)).sum();
                        f64::from(sum as f32 * (1.0 / s) * scales[n]) + bias(n)
                    }
                    file::DataType::QInt8 => {
                        let ((si, zi), (so, _)) = (self.pair(input).unwrap(), self.pair(output).unwrap());
                        let sum: f64 = (0..k).map(|k| (x_row[k] - f64::from(zi)) * weight(n, k)).sum();
                        self.requantised(output, range, sum + bias(n), si * scales[n] / so)
                    }
                    _ => {
                        let scale = |k: usize| scales.get(n * groups + k / group).map_or(1.0, |&scale| scale.into());
                        (0..k).map(|k| x_row[k] * weight(n, k) * scale(k)).sum::<f64>() + bias(n)
                    }
                });
            }
        }
        let result = Content { dims, numbers, rows: Vec::new() };
        if self.int8(output) {
            self.values[output.index()] = Some(result);
        } else {
            self.put(output, result, range);
        }
    }

    pub(super) fn convolution(&mut self, it: &file::Convolution, range: Option<file::OutputRange>) {
        let (x, w) = (self.get(it.input), self.get(it.filter));
        let channels = (it.groups * it.group_output_channels) as usize;
        let scales = if self.info(it.filter).dtype.is_quantized() { self.scales(it.filter, channels) } else { Vec::new() };
        let bias = it.bias.map(|bias| self.get(bias).numbers);
        let bias = |channel: usize| bias.as_ref().map_or(0.0, |bias| bias[channel]);
        let transposed = it.kind == file::ConvolutionKind::Transposed;
        let size = |axis: usize| {
            let (kernel, stride, dilation, pads, more) = match axis {
                1 => (
                    it.kernel.height,
                    it.stride.height,
                    it.dilation.height,
                    it.padding.top + it.padding.bottom,
                    it.adjustment.height,
                ),
                _ => (
                    it.kernel.width,
                    it.stride.width,
                    it.dilation.width,
                    it.padding.left + it.padding.right,
                    it.adjustment.width,
                ),
            };
            let (x, span) = (x.dims[axis] as u32, (kernel - 1) * dilation + 1);
            (if transposed { stride * (x - 1) + more + span - pads } else { (x + pads - span) / stride + 1 }) as usize
        };
        let result = Content::of(vec![x.dims[0], size(1), size(2), channels], |index| {
            let (outs, ins) = (it.group_output_channels as usize, it.group_input_channels as usize);
            let group = index[3] / outs;
            let row =
                if x.rows.len() == x.dims[0] { index[0] } else { (index[0] * x.dims[1] + index[1]) * x.dims[2] + index[2] };
            let zero = match self.info(it.input).dtype {
                file::DataType::QInt8 => f64::from(self.pair(it.input).unwrap().1),
                file::DataType::QdInt8 => x.rows[row].1.into(),
                _ => 0.0,
            };
            let mut sum = 0.0;
            for (tap_y, tap_x) in (0..it.kernel.height).flat_map(|y| (0..it.kernel.width).map(move |x| (y, x))) {
                let place = |at: usize, tap: u32, stride: u32, dilation: u32, pad: u32, size: usize| {
                    let (at, tap, pad) = (at as i64, i64::from(tap * dilation), i64::from(pad));
                    let place = match transposed {
                        true => {
                            ((at + pad - tap) % i64::from(stride) == 0).then_some((at + pad - tap) / i64::from(stride))?
                        }
                        false => at * i64::from(stride) + tap - pad,
                    };
                    usize::try_from(place).ok().filter(|&place| place < size)
                };
                let y = place(index[1], tap_y, it.stride.height, it.dilation.height, it.padding.top, x.dims[1]);
                let z = place(index[2], tap_x, it.stride.width, it.dilation.width, it.padding.left, x.dims[2]);
                let (Some(y), Some(z)) = (y, z) else { continue };
                for channel in 0..ins {
                    let weight = match it.kind {
                        file::ConvolutionKind::Depthwise => w.at(&[0, tap_y as usize, tap_x as usize, index[3]]),
                        _ => w.at(&[index[3], tap_y as usize, tap_x as usize, channel]),
                    };
                    sum += (x.at(&[index[0], y, z, group * ins + channel]) - zero) * weight;
                }
            }
            match self.info(it.input).dtype {
                file::DataType::QInt8 => {
                    let ((si, _), (so, _)) = (self.pair(it.input).unwrap(), self.pair(it.output).unwrap());
                    self.requantised(it.output, range, sum + bias(index[3]), si * scales[index[3]] / so)
                }
                file::DataType::QdInt8 => f64::from(sum as f32 * (1.0 / x.rows[row].0) * scales[index[3]]) + bias(index[3]),
                _ => sum * scales.get(index[3]).map_or(1.0, |&scale| scale.into()) + bias(index[3]),
            }
        });
        if self.int8(it.output) {
            self.values[it.output.index()] = Some(result);
        } else {
            self.put(it.output, result, range);
        }
    }
}
