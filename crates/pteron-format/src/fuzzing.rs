//! Writes without verifying first, so that fuzzers and tests can make files that no exporter would.
//!
//! Only with the cargo feature `fuzzing`, and no part of the API: it may change or go at any time.

use crate::error::{Result, Section};
use crate::external::{self, ExternalData};
use crate::program::{Data, Program};
use crate::pte;
use crate::vulkan::{self, Graph};

/// [`write`](crate::write), whatever the program says.
///
/// # Errors
/// Data without bytes, or sizes that cannot be added.
pub fn write_program<D: Data>(program: &Program<D>) -> Result<Vec<u8>> {
    pte::layout_unverified(program, 0)?.into_bytes(Section::Program, &program.segments)
}

/// [`write_blob`](crate::vulkan::write_blob), whatever the graph says.
///
/// # Errors
/// Tables that do not fit the blob's header.
pub fn write_blob(graph: &Graph, stored: &[u8]) -> Result<Vec<u8>> {
    vulkan::write_blob_unverified(graph, stored)
}

/// Checks a graph as reading one does, where its own constants take `stored` bytes.
///
/// # Errors
/// The first fault found, with its place.
pub fn verify_graph(graph: &Graph, stored: u64) -> Result<()> {
    vulkan::verify_graph(graph, stored)
}

/// [`external::write`](crate::external::write), whatever the data says.
///
/// # Errors
/// Blobs without bytes, or sizes that cannot be added.
pub fn write_external<D: Data>(data: &ExternalData<D>) -> Result<Vec<u8>> {
    external::layout_unverified(data)?.into_bytes(Section::External, &data.segments)
}

/// A `.pte` file of finished tables, whatever they are, with `data` where segments lie.
#[must_use]
pub fn program_file(tables: &[u8], data: &[u8]) -> Vec<u8> {
    [pte::assemble(tables, Vec::new(), data.len() as u64, 0).head.as_slice(), data].concat()
}

/// A delegate's blob of finished tables, whatever they are, with `stored` as its constants.
///
/// # Errors
/// Tables that do not fit the blob's header.
pub fn blob_file(tables: &[u8], stored: &[u8]) -> Result<Vec<u8>> {
    vulkan::assemble(tables, stored)
}

/// A `.ptd` file of finished tables, whatever they are, with `data` where blobs lie.
#[must_use]
pub fn external_file(tables: &[u8], data: &[u8]) -> Vec<u8> {
    [external::assemble(tables, Vec::new(), data.len() as u64).head.as_slice(), data].concat()
}
