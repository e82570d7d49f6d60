//! The tables of a program, read from byte ranges of its file.

use std::cell::OnceCell;

use pteron::{FileRange, PartialProgram, Program};
use pteron_format::{PartialFile, Problem, Ptd};
use pteron_llm::PartialMetadata;
use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::convert::{Spec, bytes_of, number, specs, to_js};
use crate::error::{OrJs, Result, error};

/// The shortest range to request: requests are expensive, and the bytes that are needed next often follow.
const MIN_RANGE: u64 = 64 << 10;

/// The most bytes of tables to load. A file that claims more would fill the tab's memory.
const MAX_TABLES: u64 = 256 << 20;

/// The tables of a `.pte` file, and of the `.ptd` files beside it.
#[wasm_bindgen(js_name = Head)]
#[derive(Debug)]
pub struct WebHead {
    partial: PartialProgram,
    tables: Tables,
    /// The parsed program, cached: reading the tables again would be slow.
    program: OnceCell<Program>,
}

/// The tables of a `.ptd` file.
#[wasm_bindgen(js_name = DataHead)]
#[derive(Debug)]
pub struct WebDataHead {
    file: PartialFile,
    tables: Tables,
}

/// Counts the bytes of a file that were loaded for its tables.
#[derive(Debug)]
struct Tables {
    length: u64,
    supplied: u64,
}

impl Tables {
    fn new(length: f64) -> Result<Self> {
        Ok(Self { length: bytes_of(length, "the length of a file")?, supplied: 0 })
    }

    /// Returns a range for JavaScript, extended to a length that is worth a request.
    fn range(&self, start: u64, len: u64) -> Result<Vec<f64>> {
        if self.supplied.saturating_add(len) > MAX_TABLES {
            let message =
                format!("its tables have more than {MAX_TABLES} bytes: it is damaged, or has its weights inside them");
            return Err(error("bad-file", &message));
        }
        let end = start.saturating_add(len.max(MIN_RANGE)).min(self.length);
        Ok(vec![number(start), number(end.saturating_sub(start))])
    }

    /// Counts loaded bytes and returns their offset.
    fn take(&mut self, start: f64, bytes: &[u8]) -> Result<u64> {
        self.supplied = self.supplied.saturating_add(bytes.len() as u64);
        bytes_of(start, "an offset in a file")
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    methods: Vec<MethodInfo>,
    language_model: Option<LanguageModel>,
    external_keys: Vec<String>,
    bytes: f64,
}

#[derive(Serialize)]
struct MethodInfo {
    name: String,
    inputs: Vec<Spec>,
    outputs: Vec<Spec>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LanguageModel {
    method: String,
    context_length: Option<u32>,
    max_prefill: Option<u32>,
    vocab_size: Option<u32>,
}

#[wasm_bindgen(js_class = Head)]
impl WebHead {
    /// Creates a file of this length of which no bytes are loaded.
    ///
    /// # Errors
    /// A length that is not a whole number of bytes.
    #[wasm_bindgen(constructor)]
    pub fn new(length: f64) -> Result<Self> {
        let tables = Tables::new(length)?;
        Ok(Self { partial: PartialProgram::new(tables.length), tables, program: OnceCell::new() })
    }

    /// Returns start and length of the next range to load; empty if the tables are complete.
    ///
    /// # Errors
    /// A malformed file.
    pub fn needs(&self) -> Result<Vec<f64>> {
        Ok(match self.partial.needs().or_js()? {
            None => Vec::new(),
            Some(FileRange { file: 0, start, len }) => self.tables.range(start, len)?,
            Some(_) => return Err(error("unsupported", "tensors outside delegates are in external data")),
        })
    }

    /// Adds loaded bytes of the file.
    ///
    /// # Errors
    /// An offset that is not a whole number.
    pub fn supply(&mut self, start: f64, bytes: Vec<u8>) -> Result<()> {
        let start = self.tables.take(start, &bytes)?;
        self.partial.supply(0, start, bytes);
        self.program.take();
        Ok(())
    }

    /// Adds external data.
    pub fn attach(&mut self, data: WebDataHead) {
        self.partial.attach(data.file);
        self.program.take();
    }

    /// Describes the program.
    ///
    /// # Errors
    /// A malformed file, or one whose tables are not complete.
    pub fn info(&self) -> Result<JsValue> {
        let program = self.program()?;
        let signature = |name: &str| {
            // Loading rejects a method that takes more than tensors, by name.
            let (inputs, outputs) = program.signature(name).unwrap_or_default();
            MethodInfo { name: name.to_owned(), inputs: specs(&inputs), outputs: specs(&outputs) }
        };
        to_js(&Info {
            methods: program.methods().map(signature).collect(),
            language_model: language_model(&program),
            external_keys: program.pte().external_keys().into_iter().map(|(key, _)| key.to_owned()).collect(),
            bytes: number(self.tables.length),
        })
    }
}

impl WebHead {
    pub(crate) fn program(&self) -> Result<Program> {
        if let Some(program) = self.program.get() {
            return Ok(program.clone());
        }
        let program = self.partial.clone().finish().or_js()?;
        Ok(self.program.get_or_init(|| program).clone())
    }
}

/// Describes the language model, if a method takes tokens and a position and returns one tensor.
fn language_model(program: &Program) -> Option<LanguageModel> {
    let is_one = |name: &&str| {
        program.signature(name).is_ok_and(|(inputs, outputs)| {
            let shapes: Vec<&[u32]> = inputs.iter().map(|input| input.shape.as_slice()).collect();
            matches!(shapes.as_slice(), [[1, _], [1]]) && outputs.len() == 1
        })
    };
    let method = program.methods().find(is_one)?;
    // A program with the signature of a language model and invalid metadata can still be called with tensors.
    let facts = PartialMetadata::from_program(program).ok()?;
    let longest = program.signature(method).ok().and_then(|(inputs, _)| inputs.first()?.shape.last().copied());
    Some(LanguageModel {
        method: method.to_owned(),
        context_length: facts.context_length,
        max_prefill: longest.or(facts.max_prefill),
        vocab_size: facts.vocab_size,
    })
}

#[wasm_bindgen(js_class = DataHead)]
impl WebDataHead {
    /// Creates a file of this length of which no bytes are loaded.
    ///
    /// # Errors
    /// A length that is not a whole number of bytes.
    #[wasm_bindgen(constructor)]
    pub fn new(length: f64) -> Result<Self> {
        let tables = Tables::new(length)?;
        Ok(Self { file: PartialFile::new(tables.length), tables })
    }

    /// Returns start and length of the next range to load; empty if the tables are complete.
    ///
    /// # Errors
    /// A malformed file.
    pub fn needs(&self) -> Result<Vec<f64>> {
        match Ptd::read(&self.file) {
            Ok(_) => Ok(Vec::new()),
            Err(fault) => match fault.problem {
                Problem::NotLoaded { start, len } => self.tables.range(start, len),
                _ => Err(error("bad-file", &fault.to_string())),
            },
        }
    }

    /// Adds loaded bytes of the file.
    ///
    /// # Errors
    /// An offset that is not a whole number.
    pub fn supply(&mut self, start: f64, bytes: Vec<u8>) -> Result<()> {
        let start = self.tables.take(start, &bytes)?;
        self.file.insert(start, bytes);
        Ok(())
    }
}
