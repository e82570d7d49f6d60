//! Calls of the operator as values: built by fusions, and recovered from decoded calls.

use super::{DEF, FusedConvolutionOp, NAME, computes, packing};
use crate::elementwise::Activation;
use crate::graph::Node;
use crate::ir::{Call, Graph, Value, ValueId};
use crate::live::TensorId;
use crate::ops::convolution::Convolution;
use crate::packing::{Packing, WeightLayout};
use crate::shape::Dims;
use crate::window::geometry::Geometry;

/// The arguments of a call.
#[derive(Clone, Debug)]
pub(crate) struct FusedConvolution {
    /// With channels last.
    pub(crate) x: TensorId,
    pub(crate) weight: TensorId,
    pub(crate) layout: WeightLayout,
    pub(crate) bias: Option<TensorId>,
    pub(crate) geometry: Geometry,
    pub(crate) bounds: [f32; 2],
    pub(crate) activation: Option<Activation>,
    pub(crate) addend: Option<TensorId>,
    pub(crate) addend_first: bool,
    /// With channels last.
    pub(crate) out: TensorId,
}

impl FusedConvolution {
    /// The arguments of a convolution, whose input and output have other tensors with channels last.
    pub(crate) fn new(convolution: &Convolution, x: TensorId, out: TensorId) -> Self {
        let Convolution { weight, layout, bias, ref geometry, bounds, .. } = *convolution;
        let (activation, addend, addend_first) = (None, None, false);
        Self { x, weight, layout, bias, geometry: geometry.clone(), bounds, activation, addend, addend_first, out }
    }

    /// Bytes of the packed weights of a convolution of this input, with channels first; `None` if the operator does not compute it.
    pub(crate) fn weight_bytes(geometry: &Geometry, x: Dims, weight: Dims) -> Option<u64> {
        let sizes = geometry.sizes(x, weight, None).ok()?;
        let channels = [sizes.channels_in, sizes.channels_out];
        computes(geometry.groups, channels)
            .then(|| Packing::Convolution(packing(geometry, WeightLayout::OutIn, channels, sizes.taps(), false)).bytes())
    }

    /// The arguments of a decoded call of the operator.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        let op: &FusedConvolutionOp = node.op.downcast()?;
        Some(Self {
            x: op.x,
            weight: op.weight,
            layout: op.layout,
            bias: op.bias,
            geometry: op.geometry.clone(),
            bounds: op.bounds,
            activation: op.activation,
            addend: op.addend,
            addend_first: op.addend_first,
            out: op.out,
        })
    }

    /// Creates the call, and adds its lists and numbers to the graph's values.
    pub(crate) fn call(&self, graph: &mut Graph) -> Call {
        let value = |tensor: TensorId| ValueId(tensor.0);
        let none = graph.add(Value::Null);
        let geometry = &self.geometry;
        let mut list = |pair: [u32; 2]| {
            let items = pair[2 - geometry.spatial..].iter().map(|&item| i64::from(item)).collect();
            graph.add(Value::IntList(items))
        };
        let [stride, dilation, output_padding] =
            [geometry.stride, geometry.dilation, geometry.output_padding].map(&mut list);
        let first = 2 - geometry.spatial;
        let paddings = geometry.padding[first..].iter().chain(&geometry.after[first..]);
        let padding = paddings.map(|&padding| i64::from(padding)).collect();
        let padding = graph.add(Value::IntList(padding));
        let named = WeightLayout::NAMED.iter().find(|&&(_, layout)| geometry.order(layout) == self.layout);
        let layout = graph.add(Value::String(named.map_or("", |(name, _)| name).to_owned()));
        let transposed = graph.add(Value::Bool(geometry.transposed));
        let groups = graph.add(Value::Int(geometry.groups.into()));
        let bounds = self.bounds.map(|bound| graph.add(Value::Double(bound.into())));
        let name = self.activation.map_or(none, |activation| graph.add(Value::String(activation.name.to_owned())));
        let values = self.activation.map_or([0.0; 4], |activation| activation.values).map(|it| graph.add(Value::Double(it)));
        let [bias, addend] = [self.bias, self.addend].map(|tensor| tensor.map_or(none, value));
        let addend_first = graph.add(Value::Bool(self.addend_first));
        let mut args = vec![
            value(self.x),
            value(self.weight),
            layout,
            bias,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
        ];
        args.extend(bounds);
        args.push(name);
        args.extend(values);
        args.extend([addend, addend_first, value(self.out)]);
        Call::new(&DEF, NAME, args)
    }
}
