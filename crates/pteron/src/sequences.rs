//! Calls with rows of many sequences: each has its own position, and its state in blocks of a pool.

use pteron_format::ScalarType;
use pteron_format::adapter::LoraAdapter;
use pteron_gpu::graph::DecodedGraph;
use pteron_gpu::ir;
use pteron_gpu::sequences::{self, AdapterSlots, SequenceInputs, SequenceOptions, SequenceRows, TILE_WORDS};

use crate::conversion::from_gpu;
use crate::error::{Error, Result};
use crate::method::{Method, State};
use crate::options::LoadOptions;
use crate::pipelined::{CallInput, Hooks};
use crate::tensor::Tensor;

impl Hooks {
    /// Adds the inputs for rows of many sequences after the method's own.
    pub(crate) fn add_sequences(&mut self, graph: &mut ir::Graph, options: &SequenceOptions) -> Result<()> {
        // The options count the method's inputs and outputs.
        let rows_input = self.graph_input(options.rows_input).unwrap_or(usize::MAX);
        let output = self.outputs.get(options.output).and_then(|(output, _)| *output).unwrap_or(usize::MAX);
        let options = SequenceOptions { rows_input, output, ..*options };
        let added = sequences::prepare(graph, &options)?;
        let is_long = |input: usize| {
            let tensor = graph.inputs.get(input).and_then(|&id| graph.value(id)).and_then(ir::Value::as_tensor);
            tensor.is_some_and(|tensor| tensor.dtype == ir::DataType::Int64)
        };
        let (pairs, selected) = (vec![options.max_copies, 2], vec![options.max_selected]);
        let bounds = [selected.clone(), vec![options.max_rows], vec![u32::MAX], pairs, selected];
        let dims = |input: usize| graph.inputs.get(input).and_then(|&id| graph.value(id)).and_then(ir::Value::as_tensor);
        let tiles = added.adapters.and_then(dims).map(|tensor| tensor.dims.clone());
        for (input, bound) in added.indices().zip(bounds.into_iter().chain(tiles)) {
            let default =
                if is_long(input) { Tensor::from_i64(&[0], &[])? } else { Tensor::new(ScalarType::Int, &[0], vec![])? };
            self.inputs.push(self.own + self.defaults.len());
            self.defaults.push(default);
            self.bounds.push(Some(bound));
        }
        self.sequences = Some(added);
        Ok(())
    }

    /// The graph rewritten for rows of many sequences, if that is asked for.
    pub(crate) fn rewritten(&self, graph: DecodedGraph, options: &LoadOptions) -> Result<DecodedGraph> {
        let (Some(options), Some(inputs)) = (&options.sequences, &self.sequences) else { return Ok(graph) };
        let output = self.outputs.get(options.output).and_then(|(output, _)| *output).unwrap_or(usize::MAX);
        Ok(sequences::rewrite(graph, &SequenceOptions { output, ..*options }, inputs)?)
    }
}

impl Method {
    /// The inputs that were added for rows of many sequences, by index of the method's inputs; `None` unless the method was loaded
    /// [for them](LoadOptions::with_sequences).
    #[must_use]
    pub fn sequence_inputs(&self) -> Option<SequenceInputs> {
        let hooks = self.hooks.as_ref()?;
        let added = hooks.sequences?;
        let input = |input: usize| hooks.inputs.get(input).copied();
        Some(SequenceInputs {
            fed_back: input(added.fed_back)?,
            sources: input(added.sources)?,
            work: input(added.work)?,
            copies: input(added.copies)?,
            selected: input(added.selected)?,
            adapters: added.adapters.and_then(input),
        })
    }

    /// The slots for low-rank adapters, for a method [loaded](crate::SequenceOptions::adapters) for them.
    ///
    /// # Errors
    /// A method that was not loaded for rows of many sequences.
    pub fn adapter_slots(&self) -> Result<AdapterSlots<'_>> {
        Ok(self.sequence_graph()?.adapter_slots())
    }

    /// Writes a low-rank adapter into a slot. Calls that have been started do not see it; calls that are started later do.
    ///
    /// # Errors
    /// An adapter that does not fit, before anything is written, or a device that fails.
    pub fn write_adapter(&self, slot: u32, adapter: &LoraAdapter) -> Result<()> {
        Ok(self.sequence_graph()?.write_adapter(slot, adapter)?)
    }

    /// Builds the input that says which rows have which adapter: for each row its slot or none, and for each slot the rank of its adapter.
    ///
    /// # Errors
    /// A slot without a rank.
    pub fn adapter_tiles(&self, slots: &[Option<u32>], ranks: &[u32]) -> Result<Tensor> {
        let unknown = || Error::Misuse(format!("method {:?}: a row has an adapter in a slot without one", self.name));
        let words = sequences::adapter_tiles(slots, ranks).ok_or_else(unknown)?;
        let tile = TILE_WORDS as usize;
        let tiles = u32::try_from(words.len() / tile).map_err(|_| unknown())?;
        Tensor::new(ScalarType::Int, &[tiles, TILE_WORDS], words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// The most positions of a sequence, for a method loaded for rows of many sequences.
    ///
    /// # Errors
    /// Another method.
    pub fn sequence_positions(&self) -> Result<u32> {
        Ok(self.sequence_graph()?.paged_tiling()?.positions())
    }

    /// Builds the work list of a call of `rows` rows, in the order of their sequences: an input of the call. A block table lists the
    /// blocks of a sequence, [`BLOCK_POSITIONS`](crate::BLOCK_POSITIONS) positions each, up to its last row.
    ///
    /// # Errors
    /// Rows that are not those of the sequences in order, positions past the last, and block tables that are too short or name blocks
    /// that there are not.
    pub fn work_list(&self, rows: u32, sequences: &[SequenceRows], block_tables: &[u32]) -> Result<Tensor> {
        let words = self.sequence_graph()?.paged_tiling()?.work_list(rows, sequences, block_tables);
        let words = words.map_err(|reason| Error::Misuse(format!("method {:?}: {reason}", self.name)))?;
        let len = u32::try_from(words.len()).map_err(|_| Error::Misuse("the work list is too long".to_owned()))?;
        Tensor::new(ScalarType::Int, &[len], words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    fn sequence_graph(&self) -> Result<&pteron_gpu::engine::LoadedGraph> {
        let loaded = self.hooks.as_ref().is_some_and(|hooks| hooks.sequences.is_some());
        self.graphs
            .first()
            .filter(|_| loaded)
            .ok_or_else(|| Error::Misuse(format!("method {:?} was not loaded for rows of many sequences", self.name)))
    }

    /// Calls the method with its inputs and those of appended operators. Returns its outputs and theirs.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn call_with(&self, state: &mut State, inputs: &[CallInput<'_>]) -> Result<Vec<Tensor>> {
        let (Some(hooks), [own], Some(graph)) = (&self.hooks, state.graphs.as_mut_slice(), self.graphs.first()) else {
            return Err(Error::Misuse(format!("method {:?} was loaded without hooks", self.name)));
        };
        let outputs = graph.call(own, &self.views(hooks, inputs)?).await?;
        let mut outputs: Vec<Option<_>> = outputs.into_iter().map(Some).collect();
        let mut take = |&(output, scalar_type): &(Option<usize>, ScalarType)| {
            let data = output.and_then(|output| outputs.get_mut(output)?.take());
            let data =
                data.ok_or_else(|| Error::Misuse(format!("method {:?} computes an output twice or not", self.name)))?;
            from_gpu(scalar_type, data)
        };
        hooks.outputs.iter().map(&mut take).collect()
    }
}
