//! The nodes of an XNNPACK graph.

use super::ValueId;

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The operation, with its operands.
    pub kind: NodeKind,
    /// Bounds of the output, as a fused `ReLU` has them. Present on [`UnaryOp::Clamp`], possible on
    /// [kinds with a range](NodeKind::has_output_range), absent on others.
    pub output_range: Option<OutputRange>,
    /// The node of the exported program it came from, for profilers.
    pub debug_handle: u32,
}

/// Bounds of a node's output, as real numbers: not NaN, `min <= max`, often infinite on one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputRange {
    /// The smallest output.
    pub min: f32,
    /// The largest output.
    pub max: f32,
}

impl OutputRange {
    /// No bounds.
    pub const UNBOUNDED: Self = Self { min: f32::NEG_INFINITY, max: f32::INFINITY };
}

/// An operation and its operands.
///
/// Operands are in memory order: dims and axes count as the bytes lie. "Image" means rank 4, NHWC. "Same type" includes an equal
/// scale and zero point where the type is quantised.
///
/// Dims are upper bounds, and a node computes its output's from the live dims of its inputs. What is verified of them stands with
/// the kind; ranks always are, other dims of outputs are the exporter's word.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// An elementwise function of one value. Input and output have equal dims (reading corrects those of an output inside the graph); both are floats of one type, or both are `qint8`,
    /// or both are `quint8`. [`UnaryOp::Copy`] and [`UnaryOp::Clamp`] have the same type on both sides.
    Unary {
        /// The function.
        op: UnaryOp,
        /// Its argument.
        input: ValueId,
        /// Its result.
        output: ValueId,
    },
    /// An elementwise function of two values that broadcast as in NumPy; the output has the larger rank. All are floats of one type, or all are `qint8`, or all are
    /// `quint8`; the second input of [`BinaryOp::PRelu`] may be any float type where the first is a float.
    Binary {
        /// The function.
        op: BinaryOp,
        /// Its arguments.
        inputs: [ValueId; 2],
        /// Its result.
        output: ValueId,
    },
    /// Softmax over the last dim; types as [`NodeKind::Unary`].
    Softmax {
        /// Its argument.
        input: ValueId,
        /// Its result.
        output: ValueId,
    },
    /// Another element type, of equal dims: float to float, float to `qint8`, `quint8` or `qdint8`, `qint8` or `quint8` to float or to
    /// another scale. Only this node writes `qdint8`.
    Convert {
        /// The source.
        input: ValueId,
        /// The destination.
        output: ValueId,
    },
    /// `input · filterᵀ + bias` over the last dim of the input; all other dims are rows.
    ///
    /// The filter has rank 2 with the input's last dim as its width, the bias has `out` elements (and dims of 1
    /// before them at times), the output has the input's dims but for the last. Types
    /// are one row of this table:
    ///
    /// | input | filter | bias | output |
    /// |---|---|---|---|
    /// | a float | a float, `qcint8`, `qcint4` or `qbint4` | a float | the input's type |
    /// | `qdint8` | `qcint8`, `qcint4` or `qbint4` | a float | a float |
    /// | `qint8` | `qint8` or `qcint8` | `qint32` or `qcint32` | `qint8` |
    /// | `quint8` | `quint8` | `qint32` | `quint8` |
    ///
    /// A quantised filter is a constant; a float filter may be computed. 4-bit filters are never transposed. Scales per channel
    /// count output channels.
    FullyConnected {
        /// The rows.
        input: ValueId,
        /// `[out, in]`, or `[in, out]` if transposed.
        filter: ValueId,
        /// `[out]`, or `[1, out]`.
        bias: Option<ValueId>,
        /// The input's dims with the last one `out`.
        output: ValueId,
        /// Whether the filter lies as `[in, out]`.
        transposed_filter: bool,
    },
    /// A convolution of an image. Types as for [`NodeKind::FullyConnected`], without 4-bit filters. Filter and bias are constants.
    Convolution(Convolution),
    /// Matrix products over the last two dims, of rank 2 at least; the output has the larger rank, and leading dims broadcast. All are floats of one type, or
    /// all `qint8`.
    BatchMatrixMultiply {
        /// `[.., m, k]` and `[.., k, n]`, or `[.., n, k]` if transposed.
        inputs: [ValueId; 2],
        /// `[.., m, n]`.
        output: ValueId,
        /// Whether the second input lies as `[.., n, k]`.
        transposed_second: bool,
    },
    /// The mean or maximum of windows of an image. Input and output have the same type, and the same batch and channels.
    Pool {
        /// The function of a window.
        op: PoolOp,
        /// Padding that no window counts; less than the window on each side.
        padding: Padding,
        /// The window; not 0.
        kernel: Spatial,
        /// The distance between windows; not 0.
        stride: Spatial,
        /// The distance between elements of a window; not 0, and 1 for means.
        dilation: Spatial,
        /// The image.
        input: ValueId,
        /// The smaller image.
        output: ValueId,
    },
    /// The mean over height and width: `[n, h, w, c]` to `[n, 1, 1, c]`. Both floats of one type, or both `qint8`, or both `quint8`.
    GlobalAveragePool {
        /// The image.
        input: ValueId,
        /// An image of one pixel.
        output: ValueId,
    },
    /// Maxima of windows that touch and do not overlap, and their positions in the window.
    ArgMaxPool {
        /// Padding that no window counts; less than the window on each side.
        padding: Padding,
        /// The window and the distance between windows; not 0.
        kernel: Spatial,
        /// The image of floats.
        input: ValueId,
        /// The maxima, of the input's type.
        output: ValueId,
        /// Their positions, `int32`.
        indices: ValueId,
    },
    /// Values one after the other along a dim. All have one rank and the same type.
    Concatenate {
        /// The dim; below the rank.
        axis: u32,
        /// Two to five values.
        inputs: Vec<ValueId>,
        /// All of them.
        output: ValueId,
    },
    /// A permutation of dims: output dim `i` is input dim `permutation[i]`. The same type on both sides.
    Transpose {
        /// A permutation of the input's dims.
        permutation: Vec<u32>,
        /// The source.
        input: ValueId,
        /// The destination.
        output: ValueId,
    },
    /// Other dims for the same elements. The same type on both sides.
    Reshape {
        /// The output's dims. At most one is 0, and is inferred from the number of elements; the others are the output's bounds.
        dims: Vec<u32>,
        /// The source.
        input: ValueId,
        /// The destination.
        output: ValueId,
    },
    /// A box of a value, cut to its live dims. The same type on both sides.
    Slice {
        /// The first element per dim; with the size it can be counted in 32 bits.
        offsets: Vec<u32>,
        /// The number of elements per dim.
        sizes: Vec<u32>,
        /// The source.
        input: ValueId,
        /// The destination.
        output: ValueId,
    },
    /// A value with a constant around it. The same type on both sides; the output's bounds are sums.
    Pad {
        /// Elements added before, per dim.
        before: Vec<u32>,
        /// Elements added after, per dim.
        after: Vec<u32>,
        /// The real number to add, which may be infinite or NaN; quantised values add its integer.
        value: f32,
        /// The source.
        input: ValueId,
        /// The destination.
        output: ValueId,
    },
    /// An image of another height and width. The same type on both sides.
    ResizeBilinear {
        /// The new size; not 0.
        size: Spatial,
        /// Whether corner pixels keep their place; otherwise pixel centres do.
        align_corners: bool,
        /// The image.
        input: ValueId,
        /// The image of the new size.
        output: ValueId,
    },
}

/// A convolution of an image.
///
/// | kind | filter dims | channel axis of scales |
/// |---|---|---|
/// | [`Direct`](ConvolutionKind::Direct), [`Transposed`](ConvolutionKind::Transposed) | `[groups · group_output_channels, kernel height, width, group_input_channels]` | 0 |
/// | [`Depthwise`](ConvolutionKind::Depthwise) | `[1, kernel height, width, groups · group_output_channels]` | 3 |
///
/// The input has `groups · group_input_channels` channels, output and bias have `groups · group_output_channels`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// The kind.
    pub kind: ConvolutionKind,
    /// Padding by the zero point; of a transposed convolution what is cut off its output.
    pub padding: Padding,
    /// The size of the filter; not 0.
    pub kernel: Spatial,
    /// The distance between windows; not 0.
    pub stride: Spatial,
    /// The distance between elements of a window; not 0.
    pub dilation: Spatial,
    /// Rows and columns added to the output of a transposed convolution; 0 for others.
    pub adjustment: Spatial,
    /// The number of groups; not 0.
    pub groups: u32,
    /// Input channels of a group; not 0, and 1 if depthwise.
    pub group_input_channels: u32,
    /// Output channels of a group; not 0.
    pub group_output_channels: u32,
    /// The image.
    pub input: ValueId,
    /// The weights.
    pub filter: ValueId,
    /// One number per output channel.
    pub bias: Option<ValueId>,
    /// The result.
    pub output: ValueId,
}

/// The kind of a convolution, which decides how its filter lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvolutionKind {
    /// A convolution in groups.
    Direct,
    /// A convolution whose groups have one input channel: output channel `c` reads input channel `c / group_output_channels`.
    Depthwise,
    /// A transposed convolution in groups.
    Transposed,
}

/// The function of a pooling window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolOp {
    /// The mean of the elements inside the image.
    Average,
    /// The maximum of the elements inside the image.
    Max,
}

/// Rows and columns around an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Padding {
    /// Rows above.
    pub top: u32,
    /// Columns on the right.
    pub right: u32,
    /// Rows below.
    pub bottom: u32,
    /// Columns on the left.
    pub left: u32,
}

/// A number for height and one for width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spatial {
    /// Along the height.
    pub height: u32,
    /// Along the width.
    pub width: u32,
}

/// An elementwise function of one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UnaryOp {
    /// `|x|`
    Abs,
    /// The smallest integer that is not less.
    Ceiling,
    /// `x`, within the node's output range.
    Clamp,
    /// `x`
    Copy,
    /// `cos x`
    Cos,
    /// `x < 0 ? alpha * expm1(x) : x`
    Elu {
        /// The limit at minus infinity, negated. Finite.
        alpha: f32,
    },
    /// `eˣ`
    Exp,
    /// The largest integer that is not more.
    Floor,
    /// GELU by the error function.
    Gelu,
    /// `x * clamp(x + 3, 0, 6) / 6`
    HardSwish,
    /// `x < 0 ? x * slope : x`
    LeakyRelu {
        /// The slope below 0. Finite.
        slope: f32,
    },
    /// The natural logarithm.
    Log,
    /// `-x`
    Negate,
    /// `1 / √x`
    ReciprocalSquareRoot,
    /// `1 / (1 + e⁻ˣ)`
    Sigmoid,
    /// `sin x`
    Sin,
    /// `x²`
    Square,
    /// `√x`
    SquareRoot,
    /// `tanh x`
    Tanh,
}

/// An elementwise function of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `a + b`
    Add,
    /// `a / b`
    Divide,
    /// The larger one.
    Maximum,
    /// The smaller one.
    Minimum,
    /// `a * b`
    Multiply,
    /// `a < 0 ? a * b : a`, with one slope per channel, the last dim.
    PRelu,
    /// `a - b`
    Subtract,
}

impl ConvolutionKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Direct => "Conv2d",
            Self::Depthwise => "DepthwiseConv2d",
            Self::Transposed => "ConvTranspose2d",
        }
    }
}

impl UnaryOp {
    /// The name in the exporter.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Abs => "Abs",
            Self::Ceiling => "Ceiling",
            Self::Clamp => "Clamp",
            Self::Copy => "Copy",
            Self::Cos => "Cos",
            Self::Elu { .. } => "ELU",
            Self::Exp => "Exp",
            Self::Floor => "Floor",
            Self::Gelu => "Gelu",
            Self::HardSwish => "Hardswish",
            Self::LeakyRelu { .. } => "LeakyReLU",
            Self::Log => "Log",
            Self::Negate => "Negate",
            Self::ReciprocalSquareRoot => "ReciprocalSquareRoot",
            Self::Sigmoid => "Sigmoid",
            Self::Sin => "Sin",
            Self::Square => "Square",
            Self::SquareRoot => "SquareRoot",
            Self::Tanh => "Tanh",
        }
    }
}

impl BinaryOp {
    /// The name in the exporter.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "Add",
            Self::Divide => "Div",
            Self::Maximum => "Maximum",
            Self::Minimum => "Minimum",
            Self::Multiply => "Multiply",
            Self::PRelu => "PReLU",
            Self::Subtract => "Subtract",
        }
    }
}
