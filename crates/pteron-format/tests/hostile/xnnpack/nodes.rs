//! Rules about nodes: order, element types, ranks, dims.

use pteron_format::Problem;
use pteron_format::xnnpack::{
    Convolution, DataType, Graph, NodeKind, OutputRange, Padding, Spatial, UnaryOp, ValueId, write_blob,
};

use super::{check_rules, node, output};
use crate::common::xnnpack::{Build, per_tensor};
use crate::{assert_fault, fault};

fn kind(what: &'static str, found: &'static str, expected: &'static str) -> Problem {
    Problem::Kind { what, found, expected }
}

fn size(what: &'static str, found: u64, expected: u64) -> Problem {
    Problem::Size { what, found, expected }
}

fn number(what: &'static str, found: &str, expected: &'static str) -> Problem {
    Problem::Number { what, found: found.into(), expected }
}

fn convolution<'a>(g: &'a mut Graph, name: &str) -> &'a mut Convolution {
    match node(g, name) {
        NodeKind::Convolution(params) => params,
        other => panic!("{other:?}"),
    }
}

const FIRST: &str = "graph, node 0 (Convert)";
const LINEAR: &str = "graph, node 1 (FullyConnected)";
const SLICE: &str = "graph, node 2 (StaticSlice)";
const CONV: &str = "graph, node 10 (Conv2d)";
const DEPTHWISE: &str = "graph, node 11 (DepthwiseConv2d)";
const TRANSPOSED: &str = "graph, node 12 (ConvTranspose2d)";
const MAX_POOL: &str = "graph, node 13 (MaxPooling2d)";
const RESIZE: &str = "graph, node 15 (StaticResizeBilinear2D)";
const MEAN: &str = "graph, node 16 (GlobalAvgPooling2d)";
const ARG_MAX: &str = "graph, node 17 (ArgMaxPooling2d)";
const ABS: &str = "graph, node 19 (Abs)";
const CLAMP: &str = "graph, node 21 (Clamp)";

#[test]
fn values_are_defined_once_and_before_they_are_read() {
    let twice = Problem::Duplicate { what: "the definition of value", name: "0".to_owned() };
    let index = |what, index| Problem::Index { what, index, len: 70 };
    check_rules(&[
        ("read before written", |g| g.nodes.swap(0, 1), {
            fault("graph, node 0 (FullyConnected)", Problem::Undefined { what: "an input", id: 2 })
        }),
        ("written twice", |g| g.nodes.insert(1, g.nodes[0].clone()), {
            fault("graph, node 1 (Convert)", Problem::Duplicate { what: "the definition of value", name: "2".to_owned() })
        }),
        (
            "an argument written",
            |g| {
                node(g, "Convert").for_each_operand(|id, output| {
                    if output {
                        *id = ValueId(0);
                    }
                });
            },
            fault(FIRST, twice),
        ),
        (
            "an input past the values",
            |g| {
                node(g, "Convert").for_each_operand(|id, output| {
                    if !output {
                        *id = ValueId(70);
                    }
                });
            },
            fault(FIRST, index("an input", 70)),
        ),
        (
            "an output past the values",
            |g| {
                node(g, "Convert").for_each_operand(|id, output| {
                    if output {
                        *id = ValueId(u32::MAX);
                    }
                });
            },
            fault(FIRST, index("an output", u32::MAX.into())),
        ),
    ]);
}

#[test]
fn element_types_are_those_of_the_kind() {
    let activations = "a float type, qint8 or quint8";
    check_rules(&[
        (
            "a sum of types",
            |g| {
                output(g, "Add").dtype = DataType::QUInt8;
                output(g, "Add").quantization = per_tensor(0.25, 7);
            },
            fault("graph, node 8 (Add)", kind("an operand's element type", "quint8", "qint8")),
        ),
        (
            "linear: input",
            |g| {
                node(g, "FullyConnected").for_each_operand(|id, output| {
                    if *id == ValueId(2) && !output {
                        *id = ValueId(3);
                    }
                });
            },
            fault(LINEAR, kind("the input's element type", "qbint4", "a float type, qint8, quint8 or qdint8")),
        ),
        (
            "linear: filter",
            |g| {
                node(g, "FullyConnected").for_each_operand(|id, output| {
                    if *id == ValueId(3) && !output {
                        *id = ValueId(0);
                    }
                });
            },
            fault(LINEAR, kind("the filter's element type", "float32", "qcint8, qcint4 or qbint4")),
        ),
        (
            "linear: bias",
            |g| {
                node(g, "FullyConnected").for_each_operand(|id, output| {
                    if *id == ValueId(4) && !output {
                        *id = ValueId(8);
                    }
                });
            },
            fault(LINEAR, kind("the bias's element type", "qcint4", "a float type")),
        ),
        (
            "a function of weights",
            |g| {
                node(g, "Abs").for_each_operand(|id, output| {
                    if !output {
                        *id = ValueId(8);
                    }
                });
            },
            fault(ABS, kind("the input's element type", "qcint4", activations)),
        ),
        ("a mean of another type", |g| output(g, "GlobalAvgPooling2d").dtype = DataType::Float16, {
            fault(MEAN, kind("an operand's element type", "float16", "float32"))
        }),
        (
            "positions as floats",
            |g| {
                let id = node(g, "ArgMaxPooling2d").outputs().nth(1).unwrap();
                g.values[id.index()].dtype = DataType::Float32;
            },
            fault(ARG_MAX, kind("the element type of the indices", "float32", "int32")),
        ),
    ]);
}

#[test]
fn moved_integers_keep_their_scale() {
    let mut b = Build::default();
    let x = b.external(0, false, DataType::Float32, &[2, 3]);
    let [from, to] = [0.5, 0.25].map(|scale| b.value(DataType::QInt8, &[2, 3], per_tensor(scale, 3)));
    b.node(NodeKind::Convert { input: x, output: from });
    b.node(NodeKind::Reshape { dims: vec![2, 3], input: from, output: to });
    let problem = kind("an operand's quantisation", "another scale or zero point", "that of the first input");
    let error = write_blob(&b.graph, &[]).unwrap_err();
    assert_fault(&error, &fault("graph, node 1 (StaticReshape)", problem), "another scale");
    check_rules(&[(
        "weights with a zero point",
        |g| {
            let id = g.nodes[7].kind.inputs().nth(1).unwrap();
            g.values[id.index()].quantization = per_tensor(0.125, 1);
        },
        fault("graph, node 7 (FullyConnected)", number("the filter's zero point", "1", "0")),
    )]);
}

#[test]
fn output_ranges_are_ranges() {
    let range = |found| number("the output range", found, "a minimum that is not above the maximum");
    check_rules(&[
        (
            "NaN",
            |g| g.nodes[21].output_range = Some(OutputRange { min: f32::NAN, max: 1.0 }),
            fault(CLAMP, range("NaN to 1")),
        ),
        ("reversed", |g| g.nodes[21].output_range = Some(OutputRange { min: 2.0, max: 1.0 }), fault(CLAMP, range("2 to 1"))),
    ]);
}

#[test]
fn parameters_are_finite() {
    let parameter = |found| number("the parameter", found, "a finite number");
    check_rules(&[
        ("ELU", |g| set_op(g, "ELU", UnaryOp::Elu { alpha: f32::NAN }), fault("graph, node 24 (ELU)", parameter("NaN"))),
        ("leaky ReLU", |g| set_op(g, "LeakyReLU", UnaryOp::LeakyRelu { slope: f32::INFINITY }), {
            fault("graph, node 29 (LeakyReLU)", parameter("inf"))
        }),
    ]);
    fn set_op(g: &mut Graph, name: &str, to: UnaryOp) {
        if let NodeKind::Unary { op, .. } = node(g, name) {
            *op = to;
        }
    }
}

#[test]
fn linear_layers_fit_their_weights() {
    check_rules(&[
        (
            "the width",
            |g| (g.values[0].dims, g.values[2].dims) = (vec![2, 65], vec![2, 65]),
            fault(LINEAR, size("the input's last dim", 65, 64)),
        ),
        (
            "the channels",
            |g| output(g, "FullyConnected").dims = vec![2, 9],
            fault(LINEAR, size("a dim of the output", 9, 8)),
        ),
        ("the rows", |g| output(g, "FullyConnected").dims = vec![3, 8], fault(LINEAR, size("a dim of the output", 3, 2))),
        ("the rank", |g| output(g, "FullyConnected").dims = vec![8], fault(LINEAR, size("the output's rank", 1, 2))),
        (
            "4-bit weights transposed",
            |g| {
                if let NodeKind::FullyConnected { transposed_filter, .. } = node(g, "FullyConnected") {
                    *transposed_filter = true;
                }
            },
            fault(LINEAR, kind("the filter's element type", "qbint4", "one of whole bytes, as the filter is transposed")),
        ),
        (
            "a bias of another layer",
            |g| {
                node(g, "FullyConnected").for_each_operand(|id, output| {
                    if *id == ValueId(4) && !output {
                        *id = ValueId(0);
                    }
                });
            },
            fault(LINEAR, size("the length of the bias", 128, 8)),
        ),
    ]);
}

#[test]
fn convolutions_fit_their_weights() {
    let zero = |what| number(what, "0", "a number above 0");
    check_rules(&[
        ("a stride of 0", |g| convolution(g, "Conv2d").stride.width = 0, fault(CONV, zero("a stride"))),
        ("a dilation of 0", |g| convolution(g, "Conv2d").dilation.height = 0, fault(CONV, zero("a dilation"))),
        ("no window", |g| convolution(g, "Conv2d").kernel.height = 0, fault(CONV, zero("the filter's size"))),
        (
            "no groups",
            |g| convolution(g, "Conv2d").groups = 0,
            fault(CONV, zero("the number of groups or of their channels")),
        ),
        (
            "groups that do not divide",
            |g| convolution(g, "Conv2d").groups = 3,
            fault(CONV, size("the input's channels", 2, 6)),
        ),
        ("groups past 32 bits", |g| convolution(g, "Conv2d").groups = u32::MAX, {
            fault(CONV, size("the input's channels", 2, 2 * u64::from(u32::MAX)))
        }),
        ("another window", |g| convolution(g, "Conv2d").kernel.width = 2, fault(CONV, size("a dim of the filter", 3, 2))),
        (
            "depthwise over two channels",
            |g| {
                let params = convolution(g, "DepthwiseConv2d");
                (params.groups, params.group_input_channels, params.group_output_channels) = (2, 2, 2);
            },
            fault(DEPTHWISE, size("the input channels of a group", 2, 1)),
        ),
        ("an adjustment", |g| convolution(g, "Conv2d").adjustment.width = 1, fault(CONV, size("the adjustment", 1, 0))),
        ("no image", |g| g.values[1].dims = vec![1, 6, 6], fault(CONV, size("the input's rank", 3, 4))),
        ("a window past the image", |g| convolution(g, "Conv2d").dilation.height = 100, {
            fault(CONV, Problem::TooMany { what: "the window with its dilation", found: 201, limit: 6 })
        }),
        ("a window past 32 bits", |g| convolution(g, "Conv2d").dilation.height = u32::MAX, {
            let found = 2 * u64::from(u32::MAX) + 1;
            fault(CONV, Problem::TooMany { what: "the window with its dilation", found, limit: 6 })
        }),
        (
            "computed weights",
            |g| {
                let params = convolution(g, "ConvTranspose2d");
                params.filter = params.input;
            },
            fault(TRANSPOSED, kind("the filter", "computed", "a constant")),
        ),
    ]);
}

#[test]
fn windows_fit_images() {
    let zero = |what| number(what, "0", "a number above 0");
    check_rules(&[
        ("padding past the window", |g| set_padding(g, 2), {
            fault(MAX_POOL, Problem::TooMany { what: "the padding of a window", found: 2, limit: 1 })
        }),
        ("no window", |g| set_kernel(g, Spatial { height: 0, width: 2 }), fault(MAX_POOL, zero("the window"))),
        ("other channels", |g| output(g, "MaxPooling2d").dims = vec![1, 2, 2, 3], {
            fault(MAX_POOL, size("the output's channels", 3, 2))
        }),
        (
            "another size",
            |g| output(g, "StaticResizeBilinear2D").dims[1] = 5,
            fault(RESIZE, size("a dim of the output", 5, 4)),
        ),
        ("a mean with a height", |g| output(g, "GlobalAvgPooling2d").dims[1] = 2, {
            fault(MEAN, size("a dim of the output", 2, 1))
        }),
    ]);
    fn set_padding(g: &mut Graph, to: u32) {
        if let NodeKind::Pool { padding, .. } = node(g, "MaxPooling2d") {
            *padding = Padding { top: to, ..Padding::default() };
        }
    }
    fn set_kernel(g: &mut Graph, to: Spatial) {
        if let NodeKind::Pool { kernel, .. } = node(g, "MaxPooling2d") {
            *kernel = to;
        }
    }
}

#[test]
fn movements_fit_dims() {
    let index = |what, index, len| Problem::Index { what, index, len };
    check_rules(&[
        (
            "offsets",
            |g| {
                if let NodeKind::Slice { offsets, .. } = node(g, "StaticSlice") {
                    offsets[0] = u32::MAX;
                }
            },
            { fault(SLICE, Problem::Overflow { what: "the end of the slice" }) },
        ),
        (
            "a dim twice",
            |g| {
                if let NodeKind::Transpose { permutation, .. } = node(g, "StaticTranspose") {
                    *permutation = vec![0, 0];
                }
            },
            fault("graph, node 43 (StaticTranspose)", Problem::Duplicate { what: "the dim", name: "0".to_owned() }),
        ),
        (
            "a dim past the rank",
            |g| {
                if let NodeKind::Transpose { permutation, .. } = node(g, "StaticTranspose") {
                    *permutation = vec![0, 2];
                }
            },
            fault("graph, node 43 (StaticTranspose)", index("a dim of the permutation", 2, 2)),
        ),
        (
            "padding",
            |g| {
                if let NodeKind::Pad { before, .. } = node(g, "StaticConstantPad") {
                    before[0] = u32::MAX;
                }
            },
            {
                let expected = u64::from(u32::MAX) + 3;
                fault("graph, node 46 (StaticConstantPad)", size("a dim of the output", 4, expected))
            },
        ),
        (
            "an axis",
            |g| {
                if let NodeKind::Concatenate { axis, .. } = node(g, "Concatenate2") {
                    *axis = 2;
                }
            },
            { fault("graph, node 47 (Concatenate2)", index("the axis", 2, 2)) },
        ),
        (
            "two inferred dims",
            |g| {
                if let NodeKind::Reshape { dims, .. } = node(g, "StaticReshape") {
                    *dims = vec![0, 0];
                }
            },
            {
                fault(
                    "graph, node 51 (StaticReshape)",
                    Problem::TooMany { what: "the number of inferred dims", found: 2, limit: 1 },
                )
            },
        ),
        (
            "other dims",
            |g| {
                if let NodeKind::Reshape { dims, .. } = node(g, "StaticReshape") {
                    *dims = vec![0, 3];
                }
            },
            { fault("graph, node 51 (StaticReshape)", size("a dim of the output", 1, 3)) },
        ),
        ("a function with other dims", |g| g.values.last_mut().unwrap().dims[3] = 3, {
            fault("graph, node 54 (Copy)", size("a dim of the output", 3, 2))
        }),
        ("a rank of one", |g| output(g, "BatchMatrixMultiply").dims = vec![4], {
            fault("graph, node 44 (BatchMatrixMultiply)", size("the output's rank", 1, 2))
        }),
        ("a broadcast of ranks", |g| output(g, "Maximum").dims = vec![1, 2, 4], {
            fault("graph, node 39 (Maximum)", size("the output's rank", 3, 2))
        }),
    ]);
}
