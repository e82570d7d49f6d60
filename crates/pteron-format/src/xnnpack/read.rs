//! Converts verified tables to a typed graph.

use pteron_schema::Vector;
use pteron_schema::xnnpack as fb;

use super::*;
use crate::budget::Budget;
use crate::error::{Item, Problem, Result, Section};
use crate::reader::Reader;

/// The id of a value that is absent, or of an argument that a value is not.
pub(super) const NONE: u32 = u32::MAX;
/// The offset of a constant whose bytes are named data.
pub(super) const NAMED: u64 = u64::MAX;
/// Flags of values.
pub(super) const EXTERNAL_INPUT: u32 = 1;
pub(super) const EXTERNAL_OUTPUT: u32 = 2;
/// The type of an external input that the oldest runtimes quantised when they were called.
const DYNAMIC_QINT8: i16 = 3;

/// Reads the tables. Constants are those of `constant_data`, or bytes inside the tables if that is empty; the offsets of the latter
/// count from the start of `tables`.
pub(super) fn read_graph(root: fb::XnnGraph<'_>, tables: &[u8], old: bool, budget: &mut Budget) -> Result<Graph> {
    let mut cx = Reader::new(Section::Graph, budget);
    let version = cx.text_or_empty(root.version())?;
    // Entry 0 of either list stands for "not a constant".
    let constants = match (root.constant_data(), root.constant_buffer()) {
        (Some(list), _) if !list.is_empty() => cx.tail(list.iter().skip(1), Reader::xnnpack_constant)?,
        (_, Some(list)) => cx.tail(list.iter().skip(1), |_, buffer| Ok(inline_constant(tables, buffer.storage())))?,
        (_, None) => Vec::new(),
    };
    let mut ids =
        Ids { sorted: cx.budget.vec(&cx.section, root.xvalues().map_or(0, |values| values.len()))?, ..Ids::default() };
    let mut values = cx.tables(root.xvalues(), |cx, value: fb::XValue<'_>| cx.xnnpack_value(value, old, &mut ids))?;
    let mut nodes: Vec<Node> = ids.quantise_inputs(&mut cx, &mut values)?;
    ids.sort(&cx)?;
    let count = root.xnodes().map_or(0, |nodes| nodes.len());
    cx.budget.charge::<Node>(&cx.section, count)?;
    crate::alloc::reserve(&mut nodes, count).map_err(|lacking| lacking.in_section(&cx.section))?;
    for node in root.xnodes().iter().flat_map(|nodes| nodes.iter()) {
        let mut node = cx.xnnpack_node(nodes.len(), node)?;
        ids.apply(&cx, nodes.len(), &mut node.kind, values.len())?;
        nodes.push(node);
    }
    settle_dims(&mut values, &nodes);
    Ok(Graph { version, values, nodes, constants, external_count: root.num_externs() })
}

/// Corrects the dims of values inside the graph that equal those of another. Exporters write NCHW for images that are quantised when
/// the graph runs, though they lie as NHWC; ExecuTorch computes dims when it runs and does not notice.
fn settle_dims(values: &mut [Value], nodes: &[Node]) {
    for node in nodes {
        let (NodeKind::Unary { input, output, .. } | NodeKind::Convert { input, output }) = node.kind else { continue };
        let Ok([input, output]) = values.get_disjoint_mut([input.index(), output.index()]) else { continue };
        if output.external.is_none() && output.constant.is_none() && output.dims.len() == input.dims.len() {
            output.dims.copy_from_slice(&input.dims);
        }
    }
}

/// Bytes inside the tables.
fn inline_constant(tables: &[u8], bytes: Option<Vector<'_, u8>>) -> Constant {
    let bytes = bytes.map(|bytes| bytes.bytes()).unwrap_or_default();
    let start = if bytes.is_empty() { 0 } else { bytes.as_ptr().addr().saturating_sub(tables.as_ptr().addr()) };
    Constant { len: bytes.len() as u64, source: ConstantSource::Stored(start as u64) }
}

/// The indices of ids. Exporters number values by their position; this does not depend on it.
#[derive(Default)]
struct Ids {
    /// The id of each value, while values are read; then ids with their indices, sorted. Empty if every id is its index.
    sorted: Vec<(u32, u32)>,
    /// External inputs that are quantised when the graph is called.
    dynamic: Vec<u32>,
    /// The first of the values that hold those inputs quantised, in the same order.
    quantised: u32,
}

impl Ids {
    /// Adds a value that holds each dynamic input quantised, and the node that writes it, as newer exporters do.
    fn quantise_inputs(&mut self, cx: &mut Reader<'_>, values: &mut Vec<Value>) -> Result<Vec<Node>> {
        let mut nodes = cx.budget.vec(&cx.section, self.dynamic.len())?;
        cx.budget.charge::<Value>(&cx.section, self.dynamic.len())?;
        crate::alloc::reserve(values, self.dynamic.len()).map_err(|lacking| lacking.in_section(&cx.section))?;
        self.quantised = u32::try_from(values.len()).unwrap_or(NONE);
        for (&index, output) in self.dynamic.iter().zip(self.quantised..) {
            let input = ValueId(index);
            let dims = &values[input.index()].dims;
            cx.budget.charge::<u32>(&cx.section, dims.len())?;
            let dims = crate::alloc::copied(dims).map_err(|lacking| lacking.in_section(&cx.section))?;
            let quantization = Some(Quantization::PerToken { row_dims: 1 });
            values.push(Value { dtype: DataType::QdInt8, dims, constant: None, external: None, quantization });
            let kind = NodeKind::Convert { input, output: ValueId(output) };
            nodes.push(Node { kind, output_range: None, debug_handle: 0 });
        }
        Ok(nodes)
    }

    /// Prepares the search, and checks that no two values have one id.
    fn sort(&mut self, cx: &Reader<'_>) -> Result<()> {
        if self.sorted.iter().all(|&(id, index)| id == index) {
            self.sorted = Vec::new();
            return Ok(());
        }
        self.sorted.sort_unstable();
        match self.sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            None => Ok(()),
            Some(pair) => {
                let problem = Problem::Duplicate { what: "the value id", name: pair[1].0.to_string() };
                cx.fail(Item::Value(ValueId(pair[1].1).index()), problem)
            }
        }
    }

    /// Replaces the ids of a node with indices.
    fn apply(&self, cx: &Reader<'_>, index: usize, kind: &mut NodeKind, count: usize) -> Result<()> {
        if self.sorted.is_empty() && self.dynamic.is_empty() {
            return Ok(());
        }
        let mut unknown = None;
        kind.for_each_operand(|id, output| {
            if !self.sorted.is_empty() {
                match self.sorted.binary_search_by_key(&id.0, |entry| entry.0) {
                    Ok(at) => id.0 = self.sorted[at].1,
                    Err(_) => unknown = Some(id.0),
                }
            }
            let quantised = self.dynamic.binary_search(&id.0).ok().and_then(|at| u32::try_from(at).ok());
            if let Some(at) = quantised.filter(|_| !output) {
                id.0 = self.quantised.saturating_add(at);
            }
        });
        match unknown {
            None => Ok(()),
            Some(id) => {
                let problem = Problem::Index { what: "a value id", index: id.into(), len: count as u64 };
                cx.fail(Item::Node { index, kind: kind.name() }, problem)
            }
        }
    }
}

impl Reader<'_> {
    /// Reads the items of an iterator of known length.
    #[track_caller]
    fn tail<T, R>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut read: impl FnMut(&mut Self, T) -> Result<R>,
    ) -> Result<Vec<R>> {
        let mut list = self.budget.vec(&self.section, items.len())?;
        for item in items {
            list.push(read(self, item)?);
        }
        Ok(list)
    }

    /// Reserves one more item where a list is full, charged.
    #[track_caller]
    fn grow<T>(&mut self, list: &mut Vec<T>) -> Result<()> {
        if list.len() < list.capacity() {
            return Ok(());
        }
        let more = list.len().max(4);
        self.budget.charge::<T>(&self.section, more)?;
        crate::alloc::reserve(list, more).map_err(|lacking| lacking.in_section(&self.section))
    }

    fn xnnpack_constant(&mut self, table: fb::ConstantDataOffset<'_>) -> Result<Constant> {
        let source = match table.named_key() {
            Some(key) if !key.is_empty() => ConstantSource::Named(self.budget.text(&self.section, key)?),
            _ if table.offset() == NAMED => return self.missing("the key of a constant without an offset"),
            _ => ConstantSource::Stored(table.offset()),
        };
        Ok(Constant { len: table.size(), source })
    }

    /// Reads a value and notes its id.
    fn xnnpack_value(&mut self, table: fb::XValue<'_>, old: bool, ids: &mut Ids) -> Result<Value> {
        let index = ids.sorted.len();
        let item = || Item::Value(index);
        let (tensor, quantization) = match table.xvalue_union() {
            fb::XValueUnion::XnnTensorValue(tensor) => (Some(tensor), None),
            fb::XValueUnion::XnnQuantizedTensorValue(quantised) => {
                (quantised.tensor_value(), Some(self.quantization(index, quantised.quant_params())?))
            }
            fb::XValueUnion::Absent => (None, None),
            fb::XValueUnion::Unknown(tag) => {
                return self.fail(item(), Problem::Unknown { what: "the kind of value", value: tag.into() });
            }
        };
        let Some(tensor) = tensor else { return self.fail(item(), Problem::Missing { what: "its content" }) };
        let dims = self.list(tensor.dims(), |_, dim| Ok(dim))?;
        self.count(item(), tensor.num_dims(), dims.len())?;
        let external = match (tensor.flags(), tensor.external_id()) {
            (0, NONE) => None,
            (EXTERNAL_INPUT, index) if index != NONE => Some(External { index, output: false }),
            (EXTERNAL_OUTPUT, index) if index != NONE => Some(External { index, output: true }),
            (0 | EXTERNAL_INPUT | EXTERNAL_OUTPUT, index) => {
                let found = if index == NONE { "external without an index" } else { "internal with an external index" };
                let expected = "external with an index, or internal without one";
                return self.fail(item(), Problem::Kind { what: "the value", found, expected });
            }
            (flags, _) => return self.fail(item(), Problem::Unknown { what: "the value's flags", value: flags.into() }),
        };
        let position = u32::try_from(index).unwrap_or(NONE);
        if old && tensor.dq_datatype() == DYNAMIC_QINT8 && external.is_some_and(|external| !external.output) {
            self.grow(&mut ids.dynamic)?;
            ids.dynamic.push(position);
        }
        ids.sorted.push((tensor.id_out(), position));
        Ok(Value {
            dtype: DataType::read(tensor.datatype(), &self.section, item())?,
            dims,
            constant: tensor.constant_buffer_idx().checked_sub(1).map(ConstantId),
            external,
            quantization,
        })
    }

    /// A list is as long as the file says beside it.
    pub(super) fn count(&self, item: Item, stated: u32, len: usize) -> Result<()> {
        if len as u64 == u64::from(stated) {
            return Ok(());
        }
        let what = "the number of its dims";
        self.fail(item, Problem::Size { what, found: stated.into(), expected: len as u64 })
    }

    fn quantization(&mut self, value: usize, params: fb::QuantParams<'_>) -> Result<Quantization> {
        let item = || Item::Value(value);
        let positive = |cx: &Self, what, number: i32| match u32::try_from(number) {
            Ok(number) => Ok(number),
            Err(_) => cx.fail(item(), Problem::Negative { what, value: number.into() }),
        };
        Ok(match params {
            fb::QuantParams::PerTensorQuant(t) => Quantization::PerTensor { scale: t.scale(), zero_point: t.zero_point() },
            fb::QuantParams::PerTokenDynamicQuant(t) => {
                Quantization::PerToken { row_dims: positive(self, "the number of dims in a row", t.num_nonbatch_dims())? }
            }
            fb::QuantParams::PerChannelQuant(t) => Quantization::PerChannel {
                axis: positive(self, "the dim of channels", t.channel_dim())?,
                scales: self.scales(t.scale_buffer_idx(), t.num_scales(), t.scale())?,
            },
            fb::QuantParams::PerChannelGroupQuant(t) => Quantization::PerGroup {
                axis: positive(self, "the dim of channels", t.channel_dim())?,
                group_size: positive(self, "the size of a group", t.group_size())?,
                scales: self.scales(t.scale_buffer_idx(), t.num_scales(), t.scale())?,
            },
            fb::QuantParams::Absent => return self.fail(item(), Problem::Missing { what: "its quantisation" }),
            fb::QuantParams::Unknown(tag) => {
                return self.fail(item(), Problem::Unknown { what: "the kind of quantisation", value: tag.into() });
            }
        })
    }

    /// Scales are a constant, or else numbers in the tables.
    fn scales(&mut self, constant: u32, count: u32, inline: Option<Vector<'_, f32>>) -> Result<Scales> {
        match constant.checked_sub(1) {
            Some(id) => Ok(Scales::Constant { id: ConstantId(id), count }),
            None => Ok(Scales::Inline(self.list(inline, |_, scale| Ok(scale))?)),
        }
    }
}
