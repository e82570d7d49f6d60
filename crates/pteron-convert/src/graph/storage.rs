//! Assigns storage: textures where tensors fit, buffers otherwise.
//!
//! The exporter gives all tensors of a call one representation that the operator accepts and all of them fit; among several, one
//! that the following calls accept. Where a tensor already has another one, it inserts a copy.

use std::collections::{HashMap, VecDeque};

use pteron_format::vulkan::{MemoryLayout, StorageType};

use super::MAX_CALL_TOKENS;
use super::builder::{Arg, Call, CallOutput, GraphBuilder, Operator, Origin, Size, Statement, Tensor, TensorId};

/// The largest texture, in texels of four elements.
const TEXTURE_LIMITS: [u64; 3] = [16384, 16384, MAX_CALL_TOKENS as u64];
const TEXEL: u64 = 4;
/// The number of following calls to search.
const SEARCH_LIMIT: usize = 64;

/// Which dimension is packed into texels, by its distance from the last.
const LAYOUTS: [MemoryLayout; 3] = [MemoryLayout::WidthPacked, MemoryLayout::HeightPacked, MemoryLayout::ChannelsPacked];

/// Storage type and memory layout of a tensor.
pub(super) type Representation = (StorageType, MemoryLayout);

/// A set of representations: per storage, one bit for each of [`LAYOUTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RepresentationSet {
    buffers: u8,
    textures: u8,
}

impl RepresentationSet {
    const ANY: Self = Self { buffers: 0b111, textures: 0b111 };
    const WIDTH_PACKED: Self = Self { buffers: 0b001, textures: 0b001 };
    const TEXTURES: Self = Self { buffers: 0, textures: 0b111 };

    fn of((storage, layout): Representation) -> Self {
        let bits = LAYOUTS.iter().position(|&other| other == layout).map_or(0, |bit| 1 << bit);
        match storage {
            StorageType::Buffer => Self { buffers: bits, textures: 0 },
            _ => Self { buffers: 0, textures: bits },
        }
    }

    fn is_single(self) -> bool {
        self.buffers.count_ones() + self.textures.count_ones() <= 1
    }

    /// Returns the intersection, if it is not empty.
    fn common(self, other: Self) -> Option<Self> {
        let common = Self { buffers: self.buffers & other.buffers, textures: self.textures & other.textures };
        (common.buffers | common.textures != 0).then_some(common)
    }

    /// Returns the intersection, or `self` if it is empty.
    fn narrowed(self, other: Self) -> Self {
        self.common(other).unwrap_or(self)
    }

    fn pick(self) -> Representation {
        let (storage, bits) =
            if self.textures != 0 { (StorageType::Texture3d, self.textures) } else { (StorageType::Buffer, self.buffers) };
        let layout = LAYOUTS.into_iter().enumerate().find(|(bit, _)| bits >> bit & 1 == 1);
        (storage, layout.map_or(MemoryLayout::Unset, |(_, layout)| layout))
    }
}

/// Returns the representations that an operator accepts; `None` if it has no preference.
fn accepted(operator: Operator) -> Option<RepresentationSet> {
    match operator {
        Operator::Prepack | Operator::SymSize | Operator::SelectAsSymint | Operator::AddSymInts => None,
        Operator::EmbeddingInt4
        | Operator::RmsNorm
        | Operator::Linear
        | Operator::LinearInt4
        | Operator::ChooseQparams
        | Operator::LinearInt8Int4
        | Operator::Rotary
        | Operator::Attention => Some(RepresentationSet::WIDTH_PACKED),
        Operator::Embedding
        | Operator::Slice
        | Operator::View
        | Operator::Add
        | Operator::Sigmoid
        | Operator::Multiply
        | Operator::Select
        | Operator::Clone => Some(RepresentationSet::ANY),
    }
}

/// Returns the representations that a tensor fits. The token dimension always fits.
fn fitting(tensor: &Tensor) -> RepresentationSet {
    let size = |from_last: usize| match tensor.sizes.iter().rev().nth(from_last) {
        None | Some(Size::Tokens) => 1,
        Some(&Size::Fixed(size)) => u64::from(size),
    };
    let batches = if tensor.sizes.len() > 3 { size(tensor.sizes.len() - 1) } else { 1 };
    let mut textures = 0;
    for packed in 0..LAYOUTS.len() {
        let mut extents = [size(0), size(1), size(2)];
        extents[packed] = extents[packed].div_ceil(TEXEL);
        extents[2] *= batches;
        textures |= u8::from(extents.iter().zip(TEXTURE_LIMITS).all(|(&extent, limit)| extent <= limit)) << packed;
    }
    RepresentationSet { buffers: 0b111, textures }
}

/// A call, an output of a call, or a placeholder.
#[derive(Clone, Debug)]
struct Node {
    /// The representations its tensors can have; `None` for no preference.
    set: Option<RepresentationSet>,
    users: Vec<usize>,
}

/// Assigns every tensor its representation and inserts the copies that this needs.
pub(super) fn assign(builder: &mut GraphBuilder, f16: bool) -> Vec<Option<Representation>> {
    let statements = std::mem::take(&mut builder.statements);
    let mut assigner = StorageAssigner::new(builder, &statements, f16);
    let mut assigned = Vec::with_capacity(statements.len());
    for statement in statements {
        match (statement.outputs().first().map(|&tensor| assigner.producer[tensor]), statement) {
            (Some(node), Statement::Call(call)) if accepted(call.operator).is_some() => {
                assigner.assign(node, call, &mut assigned);
            }
            (_, other) => assigned.push(other),
        }
    }
    let representations = assigner.representations;
    builder.statements = assigned;
    representations
}

struct StorageAssigner<'a> {
    builder: &'a mut GraphBuilder,
    f16: bool,
    nodes: Vec<Node>,
    /// The node of the call that defines a tensor.
    producer: Vec<usize>,
    /// The node that calls take a tensor from.
    owner: Vec<usize>,
    representations: Vec<Option<Representation>>,
    copies: HashMap<(TensorId, Representation), TensorId>,
}

impl<'a> StorageAssigner<'a> {
    fn new(builder: &'a mut GraphBuilder, statements: &[Statement], f16: bool) -> Self {
        let nowhere = vec![0; builder.tensors.len()];
        let representations = vec![None; builder.tensors.len()];
        let (nodes, copies) = (Vec::new(), HashMap::new());
        let mut assigner = Self { builder, f16, nodes, producer: nowhere.clone(), owner: nowhere, representations, copies };
        for statement in statements {
            match statement {
                Statement::Placeholder(tensor) => assigner.owner[*tensor] = assigner.add(None),
                Statement::Call(call) => assigner.add_call(call),
            }
        }
        assigner
    }

    fn add(&mut self, set: Option<RepresentationSet>) -> usize {
        self.nodes.push(Node { set, users: Vec::new() });
        self.nodes.len() - 1
    }

    fn add_call(&mut self, call: &Call) {
        // Calls without tensor outputs are not nodes.
        if call.outputs().is_empty() {
            return;
        }
        let set = self.possible(call);
        let node = self.add(set);
        for tensor in call.inputs() {
            let owner = self.owner[tensor];
            self.nodes[owner].users.push(node);
        }
        for &tensor in call.outputs() {
            self.producer[tensor] = node;
            self.owner[tensor] = node;
            // Each of several outputs gets a node of its own (`getitem` in torch.fx).
            if call.outputs().len() > 1 {
                self.owner[tensor] = self.add(set);
                self.nodes[node].users.push(self.owner[tensor]);
            }
        }
    }

    /// Returns the representations that suit all tensors of a call.
    fn possible(&self, call: &Call) -> Option<RepresentationSet> {
        let tensors = call.inputs().chain(call.outputs().iter().copied());
        let fits = tensors.map(|tensor| fitting(&self.builder.tensors[tensor]));
        accepted(call.operator).map(|set| fits.fold(set, RepresentationSet::narrowed))
    }

    fn assign(&mut self, node: usize, mut call: Call, statements: &mut Vec<Statement>) {
        let representation = self.narrow(&call, node).pick();
        for &tensor in call.outputs() {
            self.representations[tensor] = Some(representation);
        }
        for arg in &mut call.args {
            let Arg::Tensor(tensor) = arg else { continue };
            if matches!(self.builder.tensors[*tensor].origin, Origin::Constant(_) | Origin::State(_)) {
                continue;
            }
            let current = *self.representations[*tensor].get_or_insert(representation);
            if current != representation {
                *tensor = self.copy(*tensor, representation, node, statements);
            }
        }
        statements.push(Statement::Call(call));
    }

    fn narrow(&self, call: &Call, node: usize) -> RepresentationSet {
        let mut set = self.nodes[node].set.unwrap_or(RepresentationSet::ANY);
        for tensor in call.inputs() {
            if self.f16 {
                set = set.narrowed(RepresentationSet::TEXTURES);
            }
            set = self.narrow_by_users(self.owner[tensor], set);
            if !set.is_single() {
                set = set.narrowed(self.representations[tensor].map_or(RepresentationSet::ANY, RepresentationSet::of));
            }
        }
        self.narrow_by_users(node, set)
    }

    /// Narrows `set` by what the users of a node accept, nearest first.
    fn narrow_by_users(&self, node: usize, mut set: RepresentationSet) -> RepresentationSet {
        let mut queue = VecDeque::from([node]);
        for _ in 1..SEARCH_LIMIT {
            let Some(node) = queue.pop_front() else { return set };
            for &user in &self.nodes[node].users {
                if set.is_single() {
                    return set;
                }
                if let Some(common) = self.nodes[user].set.and_then(|taken| set.common(taken)) {
                    set = common;
                    queue.push_back(user);
                }
            }
        }
        set
    }

    /// Inserts or reuses a copy of a tensor in another representation, for the call of `user`.
    fn copy(
        &mut self,
        tensor: TensorId,
        representation: Representation,
        user: usize,
        statements: &mut Vec<Statement>,
    ) -> TensorId {
        let owner = self.owner[tensor];
        self.nodes[owner].users.retain(|&other| other != user);
        if let Some(&copy) = self.copies.get(&(tensor, representation)) {
            let owner = self.owner[copy];
            self.nodes[owner].users.push(user);
            return copy;
        }
        let copy = self.builder.add(Tensor { origin: Origin::Call, ..self.builder.tensors[tensor].clone() });
        let args = vec![Arg::Tensor(tensor), Arg::Null];
        let call = Call { operator: Operator::Clone, args, output: CallOutput::Tensor(copy) };
        let set = self.possible(&call);
        let node = self.add(set);
        self.nodes[node].users.push(user);
        self.nodes[owner].users.push(node);
        self.producer.push(node);
        self.owner.push(node);
        self.representations.push(Some(representation));
        self.copies.insert((tensor, representation), copy);
        statements.push(Statement::Call(call));
        copy
    }
}
