//! An interpreter of XNNPACK graphs in plain Rust: every element by its definition.

mod nodes;

use pteron_format::xnnpack as file;

/// The content of a value: numbers, and the parameters of rows that are quantised when the graph runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) dims: Vec<usize>,
    /// Integers of quantised values.
    pub(super) numbers: Vec<f64>,
    /// The multiplier and the zero point of each row.
    rows: Vec<(f32, f32)>,
}

impl Content {
    pub(super) fn new(dims: &[u32], numbers: Vec<f64>) -> Self {
        Self { dims: dims.iter().map(|&dim| dim as usize).collect(), numbers, rows: Vec::new() }
    }

    fn of(dims: Vec<usize>, element: impl Fn(&[usize]) -> f64) -> Self {
        let numbers = indices(&dims).iter().map(|index| element(index)).collect();
        Self { dims, numbers, rows: Vec::new() }
    }

    fn at(&self, index: &[usize]) -> f64 {
        self.numbers[self.offset(index)]
    }

    fn offset(&self, index: &[usize]) -> usize {
        index.iter().zip(&self.dims).fold(0, |at, (&index, &dim)| at * dim + index)
    }

    /// The element that a broadcast index names.
    fn broadcast(&self, index: &[usize]) -> f64 {
        let own = &index[index.len() - self.dims.len()..];
        let own: Vec<usize> = own.iter().zip(&self.dims).map(|(&at, &dim)| if dim == 1 { 0 } else { at }).collect();
        self.at(&own)
    }
}

fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    dims.iter().fold(vec![Vec::new()], |all, &dim| {
        all.iter().flat_map(|index| (0..dim).map(move |at| [index.as_slice(), &[at]].concat())).collect()
    })
}

pub(super) struct Interpreter<'a> {
    pub(super) graph: &'a file::Graph,
    pub(super) constants: &'a [Vec<u8>],
    pub(super) values: Vec<Option<Content>>,
}

impl Interpreter<'_> {
    fn info(&self, id: file::ValueId) -> &file::Value {
        self.graph.value(id).unwrap()
    }

    fn get(&self, id: file::ValueId) -> Content {
        self.values[id.index()].clone().unwrap_or_else(|| self.constant(id))
    }

    fn constant(&self, id: file::ValueId) -> Content {
        let value = self.info(id);
        let bytes = &self.constants[value.constant.unwrap().index()];
        let numbers = match value.dtype {
            file::DataType::Float32 => words(bytes, |word| f32::from_le_bytes(word).into()),
            file::DataType::QInt32 | file::DataType::QcInt32 => words(bytes, |word| i32::from_le_bytes(word).into()),
            file::DataType::QcInt4 | file::DataType::QbInt4 => {
                let width = value.dims[1] as usize;
                let row = |row: &[u8]| -> Vec<f64> {
                    (0..width).map(|at| f64::from(row[at / 2] >> (at % 2 * 4) & 15) - 8.0).collect()
                };
                bytes.chunks_exact(width.div_ceil(2)).flat_map(row).collect()
            }
            _ => bytes.iter().map(|byte| byte.cast_signed().into()).collect(),
        };
        Content::new(&value.dims, numbers)
    }

    fn scales(&self, id: file::ValueId, count: usize) -> Vec<f32> {
        match self.info(id).quantization.clone().unwrap() {
            file::Quantization::PerTensor { scale, .. } => vec![scale; count],
            file::Quantization::PerGroup { scales: file::Scales::Inline(scales), .. } => {
                let rounded = |scale: f32| f32::from_bits((scale * 1.003_891).to_bits() & 0xffff_0000);
                scales.into_iter().map(rounded).collect()
            }
            file::Quantization::PerChannel { scales, .. } | file::Quantization::PerGroup { scales, .. } => match scales {
                file::Scales::Inline(scales) => scales,
                file::Scales::Constant { id, count } => {
                    let bytes = &self.constants[id.index()];
                    let narrow = bytes.len() == 2 * count as usize;
                    let bf16 = |pair: &[u8]| f32::from_bits(u32::from(u16::from_le_bytes([pair[0], pair[1]])) << 16);
                    if narrow { bytes.chunks_exact(2).map(bf16).collect() } else { words(bytes, f32::from_le_bytes) }
                }
            },
            file::Quantization::PerToken { .. } => Vec::new(),
        }
    }

    fn pair(&self, id: file::ValueId) -> Option<(f32, i32)> {
        match self.info(id).quantization {
            Some(file::Quantization::PerTensor { scale, zero_point }) => Some((scale, zero_point)),
            _ => None,
        }
    }

    fn int8(&self, id: file::ValueId) -> bool {
        self.info(id).dtype == file::DataType::QInt8
    }

    /// The real numbers of a value.
    fn real(&self, id: file::ValueId) -> Content {
        let mut content = self.get(id);
        if let Some((scale, zero)) = self.pair(id).filter(|_| self.int8(id)) {
            content.numbers.iter_mut().for_each(|q| *q = f64::from((*q - f64::from(zero)) as f32 * scale));
        }
        content
    }

    /// Sets a value to real numbers, within bounds, quantised if it holds integers.
    fn put(&mut self, id: file::ValueId, mut content: Content, range: Option<file::OutputRange>) {
        for number in &mut content.numbers {
            if let Some(range) = range {
                *number = number.clamp(range.min.into(), range.max.into());
            }
            if let Some((scale, zero)) = self.pair(id).filter(|_| self.int8(id)) {
                let steps = (*number as f32 * (1.0 / scale)).round_ties_even();
                *number = (f64::from(steps) + f64::from(zero)).clamp(-128.0, 127.0);
            }
        }
        self.values[id.index()] = Some(content);
    }

    fn bounds(&self, id: file::ValueId, range: Option<file::OutputRange>) -> (f64, f64) {
        let (scale, zero) = self.pair(id).unwrap();
        let integer = |real: f32| f64::from((real / scale + zero as f32).clamp(-128.0, 127.0).round_ties_even());
        range.map_or((-128.0, 127.0), |range| (integer(range.min), integer(range.max)))
    }

    /// An exact sum by one factor, bounded and rounded.
    fn requantised(&self, id: file::ValueId, range: Option<file::OutputRange>, sum: f64, factor: f32) -> f64 {
        let (_, zero) = self.pair(id).unwrap();
        let (low, high) = self.bounds(id, range);
        let zero = f64::from(zero);
        let steps = (sum as f32 * factor).clamp((low - zero) as f32, (high - zero) as f32);
        f64::from(steps.round_ties_even()) + zero
    }

    pub(super) fn run(&mut self) {
        for node in &self.graph.nodes {
            self.node(node);
        }
    }

    fn node(&mut self, node: &file::Node) {
        use file::NodeKind as Kind;
        let range = node.output_range;
        match &node.kind {
            Kind::Unary { op, input, output } => self.unary(*op, *input, *output, range),
            Kind::Binary { op, inputs, output } => self.binary(*op, *inputs, *output, range),
            Kind::Softmax { input, output } => {
                let x = self.real(*input);
                let width = *x.dims.last().unwrap();
                let row = |row: &[f64]| -> Vec<f64> {
                    let high = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let sum: f64 = row.iter().map(|x| (x - high).exp()).sum();
                    row.iter().map(|x| (x - high).exp() / sum).collect()
                };
                let numbers = x.numbers.chunks_exact(width).flat_map(row).collect();
                self.put(*output, Content { numbers, ..x }, None);
            }
            Kind::Convert { input, output } => self.convert(*input, *output),
            Kind::FullyConnected { input, filter, bias, output, transposed_filter } => {
                self.fully_connected(*input, (*filter, *transposed_filter), *bias, *output, range);
            }
            Kind::Convolution(it) => self.convolution(it, range),
            Kind::BatchMatrixMultiply { inputs, output, transposed_second } => {
                let (a, b) = (self.real(inputs[0]), self.real(inputs[1]));
                let rank = a.dims.len();
                let k = a.dims[rank - 1];
                let columns = b.dims[b.dims.len() - if *transposed_second { 2 } else { 1 }];
                let mut dims = a.dims.clone();
                dims[rank - 1] = columns;
                let result = Content::of(dims, |index| {
                    let product = |k: usize| {
                        let mut left = index.to_vec();
                        left[rank - 1] = k;
                        let mut right = index.to_vec();
                        right[rank - 2] = k;
                        if *transposed_second {
                            right.swap(rank - 1, rank - 2);
                        }
                        a.broadcast(&left) * b.broadcast(&right)
                    };
                    (0..k).map(product).sum()
                });
                self.put(*output, result, None);
            }
            Kind::Pool { op, padding, kernel, stride, dilation, input, output } => {
                let average = *op == file::PoolOp::Average;
                let x = if average { self.real(*input) } else { self.get(*input) };
                let size = |axis: usize, kernel: u32, stride: u32, dilation: u32, pads: u32| {
                    (x.dims[axis] + pads as usize - ((kernel as usize - 1) * dilation as usize + 1)) / stride as usize + 1
                };
                let rows = size(1, kernel.height, stride.height, dilation.height, padding.top + padding.bottom);
                let columns = size(2, kernel.width, stride.width, dilation.width, padding.left + padding.right);
                let result = Content::of(vec![x.dims[0], rows, columns, x.dims[3]], |index| {
                    let mut inside = Vec::new();
                    for (row, column) in
                        (0..kernel.height).flat_map(|row| (0..kernel.width).map(move |column| (row, column)))
                    {
                        let y = (index[1] as u32 * stride.height + row * dilation.height).wrapping_sub(padding.top) as usize;
                        let z =
                            (index[2] as u32 * stride.width + column * dilation.width).wrapping_sub(padding.left) as usize;
                        if y < x.dims[1] && z < x.dims[2] {
                            inside.push(x.at(&[index[0], y, z, index[3]]));
                        }
                    }
                    let mean = inside.iter().sum::<f64>() / inside.len() as f64;
                    if average { mean } else { inside.iter().copied().fold(f64::NEG_INFINITY, f64::max) }
                });
                if average {
                    self.put(*output, result, range);
                } else {
                    self.values[output.index()] = Some(result);
                }
            }
            Kind::GlobalAveragePool { input, output } => {
                let x = self.get(*input);
                let pixels = x.dims[1] * x.dims[2];
                let zero = self.pair(*input).map_or(0.0, |(_, zero)| zero.into());
                let sums = Content::of(vec![x.dims[0], 1, 1, x.dims[3]], |index| {
                    let places = (0..pixels).map(|at| [index[0], at / x.dims[2], at % x.dims[2], index[3]]);
                    places.map(|place| x.at(&place) - zero).sum()
                });
                let mut result = sums;
                match (self.pair(*input), self.pair(*output)) {
                    (Some((from, _)), Some((to, zero))) => result.numbers.iter_mut().for_each(|sum| {
                        let steps = *sum as f32 * ((from / to) * (1.0 / pixels as f32)) + zero as f32;
                        *sum = f64::from(steps.round_ties_even().clamp(-128.0, 127.0));
                    }),
                    _ => result.numbers.iter_mut().for_each(|sum| *sum /= pixels as f64),
                }
                self.values[output.index()] = Some(result);
            }
            Kind::ArgMaxPool { kernel, input, output, indices, .. } => {
                let x = self.get(*input);
                let [height, width] = [kernel.height, kernel.width].map(|size| size as usize);
                let dims = vec![x.dims[0], x.dims[1] / height, x.dims[2] / width, x.dims[3]];
                let window = |index: &[usize]| -> Vec<f64> {
                    let place =
                        |at: usize| [index[0], index[1] * height + at / width, index[2] * width + at % width, index[3]];
                    (0..height * width).map(|at| x.at(&place(at))).collect()
                };
                let first =
                    |window: &[f64]| (0..window.len()).fold(0, |best, at| if window[at] > window[best] { at } else { best });
                self.values[output.index()] = Some(Content::of(dims.clone(), |index| {
                    let window = window(index);
                    window[first(&window)]
                }));
                self.values[indices.index()] = Some(Content::of(dims, |index| first(&window(index)) as f64));
            }
            Kind::Concatenate { axis, inputs, output } => {
                let axis = *axis as usize;
                let parts: Vec<Content> = inputs.iter().map(|&input| self.get(input)).collect();
                let mut dims = parts[0].dims.clone();
                dims[axis] = parts.iter().map(|part| part.dims[axis]).sum();
                let result = Content::of(dims, |index| {
                    let mut index = index.to_vec();
                    for part in &parts {
                        if index[axis] < part.dims[axis] {
                            return part.at(&index);
                        }
                        index[axis] -= part.dims[axis];
                    }
                    f64::NAN
                });
                self.values[output.index()] = Some(result);
            }
            Kind::Transpose { permutation, input, output } => {
                let x = self.get(*input);
                let dims = permutation.iter().map(|&axis| x.dims[axis as usize]).collect();
                let result = Content::of(dims, |index| {
                    let mut from = vec![0; index.len()];
                    permutation.iter().zip(index).for_each(|(&axis, &at)| from[axis as usize] = at);
                    x.at(&from)
                });
                self.values[output.index()] = Some(result);
            }
            Kind::Reshape { dims, input, output } => {
                let mut x = self.get(*input);
                let known: usize = dims.iter().filter(|&&dim| dim > 0).map(|&dim| dim as usize).product();
                x.dims = dims.iter().map(|&dim| if dim == 0 { x.numbers.len() / known } else { dim as usize }).collect();
                self.values[output.index()] = Some(x);
            }
            Kind::Slice { offsets, sizes, input, output } => {
                let x = self.get(*input);
                let cut = |axis: usize| ((offsets[axis] + sizes[axis]) as usize).min(x.dims[axis]) - offsets[axis] as usize;
                let result = Content::of((0..x.dims.len()).map(cut).collect(), |index| {
                    let from: Vec<usize> = index.iter().zip(offsets).map(|(&at, &offset)| at + offset as usize).collect();
                    x.at(&from)
                });
                self.values[output.index()] = Some(result);
            }
            Kind::Pad { before, after, value, input, output } => {
                let x = self.get(*input);
                let fill = match self.pair(*input) {
                    Some((scale, zero)) => (value / scale + zero as f32).clamp(-128.0, 127.0).round_ties_even(),
                    None => *value,
                };
                let dims = (0..x.dims.len()).map(|axis| x.dims[axis] + (before[axis] + after[axis]) as usize).collect();
                let result = Content::of(dims, |index| {
                    let from: Option<Vec<usize>> = (0..index.len())
                        .map(|axis| index[axis].checked_sub(before[axis] as usize).filter(|&at| at < x.dims[axis]))
                        .collect();
                    from.map_or(fill.into(), |from| x.at(&from))
                });
                self.values[output.index()] = Some(result);
            }
            Kind::ResizeBilinear { size, align_corners, input, output } => {
                let x = self.real(*input);
                let out = [size.height as usize, size.width as usize];
                let place = |axis: usize, at: usize| {
                    let (from, to) = (x.dims[1 + axis] as f64, out[axis] as f64);
                    let place = match align_corners {
                        true if out[axis] > 1 => at as f64 * (from - 1.0) / (to - 1.0),
                        true => 0.0,
                        false => ((at as f64 + 0.5) * from / to - 0.5).max(0.0),
                    };
                    let first = (place as usize).min(x.dims[1 + axis] - 1);
                    (first, (first + 1).min(x.dims[1 + axis] - 1), place - first as f64)
                };
                let result = Content::of(vec![x.dims[0], out[0], out[1], x.dims[3]], |index| {
                    let ((y, below, v), (z, right, u)) = (place(0, index[1]), place(1, index[2]));
                    let at = |y, z| x.at(&[index[0], y, z, index[3]]);
                    (1.0 - v) * ((1.0 - u) * at(y, z) + u * at(y, right))
                        + v * ((1.0 - u) * at(below, z) + u * at(below, right))
                });
                self.put(*output, result, range);
            }
        }
    }
}

fn words<T>(bytes: &[u8], number: fn([u8; 4]) -> T) -> Vec<T> {
    bytes.chunks_exact(4).map(|word| number(word.try_into().unwrap())).collect()
}

/// The error function by its series, which is exact enough for small arguments.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..100 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}
