//! Bytes per second that kernels move on tensors of 64 MiB, and their share of the copy bandwidth of the adapter.
//!
//! ```text
//! cargo run --release -p pteron-gpu --example bandwidth -- [--adapter NAME] [--megabytes N] [--only TEXT]
//! ```
//!
//! Each figure is the GPU's time for a graph that calls an operator many times, minus that for one that calls it a few
//! times, in one pass each, the median of several tries. Bytes are the minimum that an operator must read and write.

use std::process::ExitCode;
use std::time::Instant;

use pteron_gpu::engine::{Gpu, GpuOptions, LoadOptions, LoadedGraph, block_on};
use pteron_gpu::fuse::Fusions;
use pteron_gpu::ir::{Call, DataType, Graph, Tensor, Value, ValueId};

const FEW: usize = 3;
const MANY: usize = 23;
const TRIES: usize = 7;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let option = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned();
    let megabytes = option("--megabytes").and_then(|text| text.parse().ok()).unwrap_or(64);
    match run(option("--adapter"), megabytes, &option("--only").unwrap_or_default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bandwidth: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(adapter: Option<String>, megabytes: u32, only: &str) -> pteron_gpu::Result<()> {
    let gpu = block_on(Gpu::open(&GpuOptions::default().with_adapter(adapter)))?;
    let summary = gpu.adapter();
    let copies = block_on(gpu.copy_bandwidth(u64::from(megabytes) << 20))?;
    println!("{} ({}, {}), tensors of {megabytes} MiB", summary.name, summary.driver, summary.backend);
    println!("plain copies: {:.0} GB/s\n", copies / 1e9);
    println!("| operator | µs | GB/s | share |\n|---|---:|---:|---:|");
    // The side of a square of that many floats, a multiple of 64.
    let side = (megabytes << 18).isqrt().next_multiple_of(64);
    for row in rows(side).iter().filter(|row| row.label.contains(only)) {
        let seconds = time(&gpu, row)?;
        let speed = row.bytes as f64 / seconds;
        println!("| {} | {:.1} | {:.0} | {:.0} % |", row.label, seconds * 1e6, speed / 1e9, 100.0 * speed / copies);
    }
    Ok(())
}

type Caller = dyn Fn(&mut GraphBuilder, &[ValueId]) -> ValueId;

/// An operator on tensors of given shapes.
struct Row {
    label: String,
    /// Its inputs: dtype and dims.
    inputs: Vec<(DataType, Vec<u32>)>,
    /// Adds the arguments between inputs and output and calls it.
    call: Box<Caller>,
    bytes: u64,
}

const F: DataType = DataType::Float32;
const I: DataType = DataType::Int32;
const B: DataType = DataType::Bool;

fn rows(n: u32) -> Vec<Row> {
    let square = vec![n, n];
    let list = |items: &[i64]| Value::IntList(items.to_vec());
    let none = Value::Null;
    let no = Value::Bool(false);
    let float = |value: f64| Value::Double(value);
    let one = |name: &'static str, args: Vec<Value>, out: Vec<u32>| row(name, vec![(F, square.clone())], args, (F, out));
    let two = |name: &'static str, other: Vec<u32>, args: Vec<Value>, dtype| {
        row(name, vec![(F, square.clone()), (F, other)], args, (dtype, square.clone()))
    };
    let (side, eight) = (i64::from(n), i64::from(n / 8));
    let cube = vec![64, n * n / 4096, 64];
    let heads = vec![n / 64, n, 64];
    // One byte per element: four times as many elements.
    let wide = vec![n, 4 * n];
    vec![
        row(
            "aten.full.default",
            vec![],
            vec![list(&[side, side]), float(2.0), none.clone(), none.clone(), none.clone(), none.clone()],
            (F, square.clone()),
        ),
        one("aten.slice_copy.Tensor", vec![Value::Int(0), Value::Int(8), Value::Int(side), Value::Int(1)], vec![n - 8, n]),
        one("aten.slice_copy.Tensor", vec![Value::Int(1), Value::Int(64), Value::Int(side), Value::Int(1)], vec![n, n - 64]),
        one("aten.permute_copy.default", vec![list(&[1, 0])], square.clone()),
        row(
            "aten.permute_copy.default",
            vec![(F, heads.clone())],
            vec![list(&[1, 0, 2])],
            (F, vec![heads[1], heads[0], 64]),
        ),
        row("aten.permute_copy.default", vec![(F, cube.clone())], vec![list(&[2, 0, 1])], (F, vec![64, 64, cube[1]])),
        one("aten.flip.default", vec![list(&[1])], square.clone()),
        row("aten.expand_copy.default", vec![(F, vec![n, 1])], vec![list(&[side, side]), no.clone()], (F, square.clone())),
        row("aten.repeat.default", vec![(F, vec![n / 8, n])], vec![list(&[8, 1])], (F, square.clone())),
        one("aten.exp.default", vec![], square.clone()),
        one("aten.gelu.default", vec![Value::String("none".into())], square.clone()),
        one("aten.sin.default", vec![], square.clone()),
        one("aten.clamp.default", vec![float(-1.0), float(1.0)], square.clone()),
        one("aten.pow.Tensor_Scalar", vec![float(2.5)], square.clone()),
        one("aten.pow.Tensor_Scalar", vec![float(3.0)], square.clone()),
        two("aten.pow.Tensor_Tensor", square.clone(), vec![], F),
        two("aten.add.Tensor", square.clone(), vec![Value::Int(1)], F),
        two("aten.mul.Tensor", vec![n], vec![], F),
        two("aten.mul.Tensor", vec![n, 1], vec![], F),
        two("aten.mul.Tensor", vec![], vec![], F),
        two("aten.gt.Tensor", square.clone(), vec![], B),
        row("aten.logical_and.default", vec![(B, wide.clone()), (B, wide.clone())], vec![], (B, wide.clone())),
        row(
            "aten.where.self",
            vec![(B, square.clone()), (F, square.clone()), (F, square.clone())],
            vec![],
            (F, square.clone()),
        ),
        row("aten._to_copy.default", vec![(I, square.clone())], vec![none.clone(); 6], (F, square.clone())),
        one("aten.sum.dim_IntList", vec![list(&[1]), no.clone(), none.clone()], vec![n]),
        one("aten.sum.dim_IntList", vec![list(&[0]), no.clone(), none.clone()], vec![n]),
        one("aten.sum.dim_IntList", vec![list(&[0, 1]), no.clone(), none.clone()], vec![]),
        row("aten.mean.dim", vec![(F, cube.clone())], vec![list(&[1]), no.clone(), none.clone()], (F, vec![64, 64])),
        one("aten.amax.default", vec![list(&[-1]), no.clone()], vec![n]),
        row("aten.argmax.default", vec![(F, square.clone())], vec![Value::Int(-1), no.clone()], (I, vec![n])),
        row("aten.argmax.default", vec![(F, square.clone())], vec![Value::Int(0), no.clone()], (I, vec![n])),
        one("aten._softmax.default", vec![Value::Int(-1), no.clone()], square.clone()),
        row("aten._softmax.default", vec![(F, cube.clone())], vec![Value::Int(1), no.clone()], (F, cube.clone())),
        one("aten._softmax.default", vec![Value::Int(0), no.clone()], square.clone()),
        layer_norm(n),
        cat(n / 2, n),
        cat(n, n / 2),
        row("aten.index_select.default", vec![(F, square.clone())], vec![Value::Int(0)], (F, vec![n / 8, n]))
            .indexed(eight, n),
    ]
}

/// An operator whose arguments are its inputs, these values, and the output.
fn row(name: &'static str, inputs: Vec<(DataType, Vec<u32>)>, values: Vec<Value>, out: (DataType, Vec<u32>)) -> Row {
    let shown = inputs.iter().map(|(dtype, dims)| format!("{} {dims:?}", dtype.name())).collect::<Vec<_>>().join(", ");
    let label = format!("`{}` {shown} → {} {:?}", name, out.0.name(), out.1);
    let bytes = inputs.iter().chain([&out]).map(|(dtype, dims)| size(*dtype, dims)).sum();
    let call = move |builder: &mut GraphBuilder, inputs: &[ValueId]| {
        let values: Vec<ValueId> = values.iter().map(|value| builder.value(value.clone())).collect();
        let out = builder.tensor(out.0, &out.1);
        builder.call(name, &[inputs, &values, &[out]].concat());
        out
    };
    Row { label, inputs, call: Box::new(call), bytes }
}

impl Row {
    /// The same with an index tensor of `count` rows as the last argument before the output.
    fn indexed(self, count: i64, n: u32) -> Self {
        let rows = u32::try_from(count).unwrap_or(1);
        let call = move |builder: &mut GraphBuilder, inputs: &[ValueId]| {
            let dim = builder.value(Value::Int(0));
            let out = builder.tensor(F, &[rows, n]);
            builder.call("aten.index_select.default", &[inputs[0], dim, inputs[1], out]);
            out
        };
        let inputs = vec![self.inputs[0].clone(), (I, vec![rows])];
        Self { inputs, call: Box::new(call), bytes: 2 * size(F, &[rows, n]), ..self }
    }
}

fn size(dtype: DataType, dims: &[u32]) -> u64 {
    let count: u64 = dims.iter().map(|&dim| u64::from(dim)).product();
    if dtype == B { count } else { count * 4 }
}

fn layer_norm(n: u32) -> Row {
    let call = move |builder: &mut GraphBuilder, inputs: &[ValueId]| {
        let shape = builder.value(Value::IntList(vec![n.into()]));
        let epsilon = builder.value(Value::Double(1e-5));
        let outs = [vec![n, n], vec![n, 1], vec![n, 1]].map(|dims| builder.tensor(F, &dims));
        let list = builder.value(Value::ValueList(outs.to_vec()));
        builder.call("aten.native_layer_norm.default", &[inputs[0], shape, inputs[1], inputs[1], epsilon, list]);
        outs[0]
    };
    let inputs = vec![(F, vec![n, n]), (F, vec![n])];
    Row {
        label: format!("`aten.native_layer_norm.default` [{n}, {n}]"),
        inputs,
        call: Box::new(call),
        bytes: 2 * size(F, &[n, n]),
    }
}

/// Two concatenated halves: on the first dim if they are `[n/2, n]`, on the last if they are `[n, n/2]`.
fn cat(rows: u32, columns: u32) -> Row {
    let (dim, whole) = if rows < columns { (0, vec![columns, columns]) } else { (1, vec![rows, rows]) };
    let bytes = 2 * size(F, &whole);
    let label = format!("`aten.cat.default` 2 × [{rows}, {columns}] on dim {dim}");
    let call = move |builder: &mut GraphBuilder, inputs: &[ValueId]| {
        let (list, dim) = (builder.value(Value::ValueList(inputs.to_vec())), builder.value(Value::Int(dim)));
        let out = builder.tensor(F, &whole);
        builder.call("aten.cat.default", &[list, dim, out]);
        out
    };
    Row { label, inputs: vec![(F, vec![rows, columns]); 2], call: Box::new(call), bytes }
}

/// A graph written by hand.
#[derive(Default)]
struct GraphBuilder {
    graph: Graph,
}

impl GraphBuilder {
    fn value(&mut self, value: Value) -> ValueId {
        self.graph.add(value)
    }

    fn tensor(&mut self, dtype: DataType, dims: &[u32]) -> ValueId {
        self.value(Value::Tensor(Tensor::new(dtype, dims)))
    }

    fn call(&mut self, name: &str, args: &[ValueId]) {
        self.graph.calls.extend(Call::named(name, args.to_vec()));
    }

    /// A tensor filled on the GPU.
    fn filled(&mut self, dtype: DataType, dims: &[u32]) -> ValueId {
        let count = i64::from(dims.iter().product::<u32>());
        let numbers = [0, count, 1].map(|number| self.value(Value::Int(number)));
        let none = self.value(Value::Null);
        let (flat, shaped) = (if dtype == I { I } else { F }, self.tensor(dtype, dims));
        let row = self.tensor(flat, &[u32::try_from(count).unwrap_or(1)]);
        self.call("aten.arange.start_step", &[&numbers[..], &[none; 4], &[row]].concat());
        if dtype == B {
            let (half, bools) = (self.value(Value::Int(count / 2)), self.tensor(B, &[u32::try_from(count).unwrap_or(1)]));
            self.call("aten.gt.Scalar", &[row, half, bools]);
            self.view(bools, dims, shaped);
        } else {
            self.view(row, dims, shaped);
        }
        shaped
    }

    fn view(&mut self, from: ValueId, dims: &[u32], to: ValueId) {
        let sizes = self.value(Value::IntList(dims.iter().map(|&dim| dim.into()).collect()));
        self.call("aten.view_copy.default", &[from, sizes, to]);
    }
}

/// Seconds per call of the operator, averaged over many.
fn time(gpu: &Gpu, row: &Row) -> pteron_gpu::Result<f64> {
    let [few, many] = [FEW, MANY].map(|calls| load(gpu, row, calls));
    let (few, many) = (few?, many?);
    let mut seconds = Vec::new();
    // The first run of each is not counted: it may compile or clear resources.
    once(&few).and(once(&many))?;
    for _ in 0..TRIES {
        seconds.push(once(&many)? - once(&few)?);
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[TRIES / 2] / (MANY - FEW) as f64)
}

fn load(gpu: &Gpu, row: &Row, calls: usize) -> pteron_gpu::Result<LoadedGraph> {
    let mut builder = GraphBuilder::default();
    let inputs: Vec<ValueId> = row.inputs.iter().map(|(dtype, dims)| builder.filled(*dtype, dims)).collect();
    let outs: Vec<ValueId> = (0..calls).map(|_| (row.call)(&mut builder, &inputs)).collect();
    // The output is one number, so that readback takes no time.
    let last = outs[outs.len() - 1];
    let Some(Value::Tensor(tensor)) = builder.graph.value(last) else {
        return Err(pteron_gpu::Error::Device("no output".into()));
    };
    let (dtype, count) = (tensor.dtype, tensor.dims.iter().product::<u32>());
    let (flat, number) = (builder.tensor(dtype, &[count]), builder.tensor(dtype, &[]));
    builder.view(last, &[count], flat);
    let zero = builder.value(Value::Int(0));
    builder.call("aten.select_copy.int", &[flat, zero, zero, number]);
    builder.graph.outputs = vec![number];
    let options = LoadOptions { max_in_flight: 1, ..LoadOptions::default() };
    block_on(LoadedGraph::load(gpu, builder.graph.decode(&Fusions::NONE)?, &|_| None, &options))
}

/// Seconds of the pass on the GPU, or wall-clock seconds without timestamps.
fn once(graph: &LoadedGraph) -> pteron_gpu::Result<f64> {
    let mut state = graph.new_state()?;
    let start = Instant::now();
    let output = block_on(graph.start(&mut state, &[], 0)?.wait())?;
    Ok(output.gpu_seconds.unwrap_or_else(|| start.elapsed().as_secs_f64()))
}
