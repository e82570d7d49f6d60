use super::{FusedConvolution, SILU};
use crate::elementwise::Activation;
use crate::engine::{Gpu, LoadOptions, Precision};
use crate::ir::{DataType, Value};
use crate::live::TensorId;
use crate::ops;
use crate::packing::WeightLayout;
use crate::plan::{Caps, MatrixSide};
use crate::reference::HostTensor;
use crate::testing::{
    DryRun, GraphBuilder, check_on, check_with, coop_matrix_gpu, emulated_matrix_gpu, f32s, gpu, load_error, noise,
};
use crate::window::geometry::Geometry;

const TOLERANCE: f32 = 1e-4;
/// With factors rounded to 16 bits.
const MATRIX_TOLERANCE: f32 = 1e-2;

/// A call of the operator.
#[derive(Clone)]
struct Call {
    /// With channels last.
    x: Vec<u32>,
    out: Vec<u32>,
    /// As in files.
    weight: Vec<u32>,
    layout: WeightLayout,
    geometry: Geometry,
    bias: bool,
    bounds: [f32; 2],
    activation: Option<Activation>,
    addend: bool,
    addend_first: bool,
}

impl Call {
    fn new(x: &[u32], weight: &[u32], out: &[u32]) -> Self {
        let spatial = x.len() - 2;
        let geometry = Geometry {
            spatial,
            stride: [1; 2],
            padding: [0; 2],
            after: [0; 2],
            dilation: [1; 2],
            transposed: false,
            output_padding: [0; 2],
            groups: 1,
        };
        let [x, weight, out] = [x, weight, out].map(<[u32]>::to_vec);
        let bounds = [f32::NEG_INFINITY, f32::INFINITY];
        let layout = WeightLayout::OutIn;
        Self { x, out, weight, layout, geometry, bias: true, bounds, activation: None, addend: false, addend_first: false }
    }

    fn builder(&self) -> GraphBuilder {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &self.x);
        let weights: Vec<f32> = noise(1, self.weight.iter().product::<u32>() as usize).iter().map(|w| w * 0.25).collect();
        let weight = builder.floats(&self.weight, &weights);
        let channels = self.out[self.out.len() - 1];
        let bias = self.bias.then(|| builder.floats(&[channels], &noise(2, channels as usize)));
        let addend = self.addend.then(|| builder.input(DataType::Float32, &self.out));
        let out = builder.tensor(DataType::Float32, &self.out);
        let id = |value: crate::ir::ValueId| TensorId(value.0);
        let call = FusedConvolution {
            x: id(x),
            weight: id(weight),
            layout: self.geometry.order(self.layout),
            bias: bias.map(id),
            geometry: self.geometry.clone(),
            bounds: self.bounds,
            activation: self.activation,
            addend: addend.map(id),
            addend_first: self.addend_first,
            out: id(out),
        };
        let call = call.call(&mut builder.graph);
        builder.graph.calls.push(call);
        builder.output(out);
        builder
    }

    fn check(&self, gpu: &Gpu, shapes: &[(&[u32], &[u32])], tolerance: f32) {
        check_on(gpu, &self.builder(), &self.calls(shapes), tolerance);
    }

    /// With factors rounded to 16 bits, as cooperative matrices need them.
    fn check_fast(&self, gpu: &Gpu, shapes: &[(&[u32], &[u32])]) {
        let options = LoadOptions { precision: Precision::Fast, ..LoadOptions::default() };
        check_with(gpu, &options, &self.builder(), &self.calls(shapes), MATRIX_TOLERANCE);
    }

    /// The inputs at the bound and at other shapes.
    fn calls(&self, shapes: &[(&[u32], &[u32])]) -> Vec<Vec<HostTensor>> {
        let whole = (self.x.as_slice(), self.out.as_slice());
        [whole].iter().chain(shapes).map(|&(x, out)| self.inputs(x, out)).collect()
    }

    fn inputs(&self, x: &[u32], out: &[u32]) -> Vec<HostTensor> {
        let values = |seed, shape: &[u32]| f32s(shape, noise(seed, shape.iter().product::<u32>() as usize));
        [Some(values(3, x)), self.addend.then(|| values(4, out))].into_iter().flatten().collect()
    }
}

fn relu6() -> Activation {
    ops::activation("aten.hardtanh.default", [0.0, 6.0, 0.0, 0.0]).unwrap()
}

/// The dims of an input and of its output.
type Shapes = (&'static [u32], &'static [u32]);

/// Convolutions of every kind, with live shapes other than the bound.
fn kinds() -> Vec<(Call, Vec<Shapes>)> {
    let with = |call: Call, change: fn(&mut Geometry)| {
        let mut call = call;
        change(&mut call.geometry);
        call.geometry.after = call.geometry.padding;
        call
    };
    vec![
        (Call::new(&[2, 9, 11, 3], &[20, 3, 3, 3], &[2, 7, 9, 20]), vec![(&[1, 3, 4, 3], &[1, 1, 2, 20])]),
        (
            with(Call::new(&[1, 12, 10, 8], &[36, 8, 3, 2], &[1, 6, 11, 36]), |g| {
                (g.stride, g.padding, g.dilation) = ([2, 1], [1, 2], [1, 3]);
            }),
            vec![(&[1, 1, 3, 8], &[1, 1, 4, 36])],
        ),
        (
            with(Call::new(&[2, 6, 5, 24], &[16, 6, 3, 3], &[2, 6, 5, 16]), |g| (g.groups, g.padding) = (4, [1, 1])),
            vec![(&[1, 2, 5, 24], &[1, 2, 5, 16]), (&[0, 6, 5, 24], &[0, 6, 5, 16])],
        ),
        (Call::new(&[1, 5, 6, 40], &[72, 40, 1, 1], &[1, 5, 6, 72]), vec![(&[1, 1, 1, 40], &[1, 1, 1, 72])]),
        (
            with(Call::new(&[2, 9, 9, 8], &[8, 1, 3, 5], &[2, 4, 3, 8]), |g| (g.groups, g.stride) = (8, [2, 2])),
            vec![(&[2, 4, 5, 8], &[2, 1, 1, 8])],
        ),
        (with(Call::new(&[1, 6, 7, 6], &[12, 1, 3, 3], &[1, 6, 7, 12]), |g| (g.groups, g.padding) = (6, [1, 1])), vec![]),
        (
            with(Call::new(&[2, 5, 4, 12], &[12, 8, 3, 2], &[2, 10, 11, 8]), |g| {
                (g.transposed, g.stride, g.padding, g.output_padding) = (true, [2, 3], [1, 0], [1, 0]);
            }),
            vec![(&[1, 1, 2, 12], &[1, 2, 5, 8])],
        ),
        (
            with(Call::new(&[1, 4, 5, 4], &[4, 1, 4, 4], &[1, 8, 10, 4]), |g| {
                (g.transposed, g.groups, g.stride, g.padding) = (true, 4, [2, 2], [1, 1]);
            }),
            vec![],
        ),
        (
            with(Call::new(&[2, 53, 1], &[12, 1, 10], &[2, 9, 12]), |g| g.stride[1] = 5),
            vec![(&[1, 10, 1], &[1, 1, 12]), (&[2, 22, 1], &[2, 3, 12])],
        ),
        // Few pixels and many products, which workgroups share.
        (
            with(Call::new(&[1, 7, 7, 128], &[20, 128, 3, 3], &[1, 7, 7, 20]), |g| g.padding = [1, 1]),
            vec![(&[1, 2, 3, 128], &[1, 2, 3, 20])],
        ),
        // Several tiles of pixels and channels.
        (Call::new(&[1, 17, 19, 16], &[144, 16, 1, 1], &[1, 17, 19, 144]), vec![]),
    ]
}

#[test]
fn every_kind_at_every_shape() {
    for (call, shapes) in kinds() {
        call.check(&gpu(), &shapes, TOLERANCE);
    }
}

#[test]
fn cooperative_matrices_agree() {
    if let Some(gpu) = coop_matrix_gpu() {
        check_matrices(&gpu);
    }
}

#[test]
fn matrices_of_32_lanes() {
    if let Some(gpu) = emulated_matrix_gpu(MatrixSide::Sixteen, (32, 32), 32, 100) {
        check_matrices(&gpu);
    }
}

fn check_matrices(gpu: &Gpu) {
    let mut kernels = Vec::new();
    for (call, shapes) in kinds() {
        // A device that fewer workgroups occupy takes larger tiles.
        for fill_percent in [100, 1] {
            let gpu = gpu.with_caps(Caps { fill_percent, ..gpu.caps() });
            call.check_fast(&gpu, &shapes);
            let dry_run = DryRun::on(&call.builder(), Caps { rounded_factors: true, ..gpu.caps() }).unwrap();
            let ran = &dry_run.planned.recipes()[0].list[dry_run.recipes(0)[0]].variant;
            assert_eq!(ran.kernel.cooperative_matrix, call.weight[1] > 1 || call.geometry.groups == 1, "{}", ran.label);
            kernels.push(ran.source(crate::kernel::Target::Native));
        }
    }
    kernels.sort();
    kernels.dedup();
    assert!(kernels.len() > 5, "{} kernels ran", kernels.len());
}

#[test]
fn bounds_activation_and_addend_in_every_order() {
    let plain = Call::new(&[1, 5, 6, 8], &[12, 8, 3, 3], &[1, 3, 4, 12]);
    let mut depthwise = Call::new(&[1, 5, 6, 8], &[8, 1, 3, 3], &[1, 3, 4, 8]);
    depthwise.geometry.groups = 8;
    let split = Call::new(&[1, 3, 3, 96], &[12, 96, 3, 3], &[1, 1, 1, 12]);
    for call in [plain, depthwise, split] {
        for (activation, addend, addend_first) in [
            (None, true, false),
            (Some(relu6()), false, false),
            (Some(SILU), true, false),
            (ops::activation("aten.relu.default", [0.0; 4]), true, true),
            (ops::activation("aten.hardswish.default", [0.0; 4]), false, false),
        ] {
            let call = Call { activation, addend, addend_first, bounds: [-0.5, 0.75], ..call.clone() };
            call.check(&gpu(), &[], TOLERANCE);
        }
    }
}

#[test]
fn few_outputs_share_their_products() {
    let call = Call::new(&[1, 56, 56, 128], &[32, 128, 1, 1], &[1, 56, 56, 32]);
    let mut dry_run = DryRun::new(&call.builder()).unwrap();
    assert_eq!(dry_run.recipes(0), [0], "each of 128 products is not worth a second dispatch");
    let deep = Call::new(&[32, 14, 14, 512], &[32, 512, 1, 1], &[32, 14, 14, 32]);
    dry_run = DryRun::new(&deep.builder()).unwrap();
    for (images, recipes) in [(1, vec![1, 2]), (32, vec![1, 2]), (0, vec![])] {
        dry_run.call(&[(&[images, 14, 14, 512], &[])]).unwrap();
        assert_eq!(dry_run.recipes(0), recipes, "{images} images");
    }
}

#[test]
fn wrong_arguments_are_refused_by_name() {
    let odd = Call::new(&[1, 3, 3, 4], &[6, 4, 1, 1], &[1, 3, 3, 6]);
    let error = load_error(&odd.builder());
    assert!(error.contains("`weight` is [6, 4, 1, 1], expected output channels in fours"), "{error}");
    let mut other = Call::new(&[1, 3, 3, 4], &[8, 4, 1, 1], &[1, 3, 3, 8]);
    other.addend = true;
    let mut builder = other.builder();
    let addend = builder.graph.inputs[1];
    let Value::Tensor(tensor) = &mut builder.graph.values[addend.index()] else { panic!("an input is a tensor") };
    tensor.dims = vec![1, 1, 3, 8];
    let error = load_error(&builder);
    assert!(error.contains("`addend` is [1, 1, 3, 8], but the output is [1, 3, 3, 8]"), "{error}");
    let input = Call::new(&[1, 3, 3, 5], &[8, 4, 1, 1], &[1, 3, 3, 8]);
    let error = load_error(&input.builder());
    assert!(error.contains("`weight` is [8, 4, 1, 1], but the input has 5 channels in 1 groups"), "{error}");
}

#[test]
fn weights_with_channels_last_and_uneven_paddings_agree() {
    let with = |x: &[u32], weight: &[u32], out: &[u32], layout, change: fn(&mut Geometry)| {
        let mut call = Call { layout, ..Call::new(x, weight, out) };
        change(&mut call.geometry);
        call
    };
    let last = WeightLayout::ChannelsLast;
    for call in [
        with(&[1, 8, 9, 6], &[12, 3, 2, 6], &[1, 9, 9, 12], last, |g| (g.padding, g.after) = ([2, 0], [1, 1])),
        with(&[2, 5, 6, 8], &[8, 3, 3, 4], &[2, 3, 3, 8], last, |g| {
            (g.groups, g.stride, g.padding, g.after) = (2, [2, 2], [1, 0], [1, 2]);
        }),
        with(&[1, 5, 6, 8], &[1, 3, 3, 16], &[1, 5, 6, 16], WeightLayout::Depthwise, |g| {
            (g.groups, g.padding, g.after) = (8, [1, 1], [1, 1]);
        }),
        with(&[1, 4, 5, 6], &[8, 3, 2, 3], &[1, 8, 10, 8], last, |g| {
            (g.transposed, g.groups, g.stride, g.padding, g.after) = (true, 2, [2, 2], [1, 0], [0, 0]);
        }),
    ] {
        call.check(&gpu(), &[], TOLERANCE);
    }
}
