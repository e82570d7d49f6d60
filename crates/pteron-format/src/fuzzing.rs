//! Writes without verifying first, so that fuzzers and tests can make files that no exporter would.
//!
//! Only with the cargo feature `fuzzing`. Not part of the API: it may change or be removed at any time.

use crate::error::{Result, Section};
use crate::external::{self, ExternalData};
use crate::program::{Data, Program};
use crate::pte;
use crate::vulkan::{self, Graph};
use crate::xnnpack;

/// [`write`](crate::write) without verification.
///
/// # Errors
/// Data without bytes, or sizes that cannot be added.
pub fn write_program<D: Data>(program: &Program<D>) -> Result<Vec<u8>> {
    pte::layout_unverified(program, 0)?.into_bytes(Section::Program, &program.segments)
}

/// [`write_blob`](crate::vulkan::write_blob) without verification.
///
/// # Errors
/// Tables that do not fit the blob's header.
pub fn write_blob(graph: &Graph, stored: &[u8]) -> Result<Vec<u8>> {
    vulkan::write_blob_unverified(graph, stored)
}

/// Checks a graph as reading one does, where its own constants take `stored` bytes.
///
/// # Errors
/// The first problem found, with its location.
pub fn verify_graph(graph: &Graph, stored: u64) -> Result<()> {
    vulkan::verify_graph(graph, stored)
}

/// [`external::write`](crate::external::write) without verification.
///
/// # Errors
/// Blobs without bytes, or sizes that cannot be added.
pub fn write_external<D: Data>(data: &ExternalData<D>) -> Result<Vec<u8>> {
    external::layout_unverified(data)?.into_bytes(Section::External, &data.segments)
}

/// Builds a `.pte` file from arbitrary finished tables, with `data` as its segments.
#[must_use]
pub fn program_file(tables: &[u8], data: &[u8]) -> Vec<u8> {
    [pte::assemble(tables, Vec::new(), data.len() as u64, 0).head.as_slice(), data].concat()
}

/// Builds a delegate's blob from arbitrary finished tables, with `stored` as its constants.
///
/// # Errors
/// Tables that do not fit the blob's header.
pub fn blob_file(tables: &[u8], stored: &[u8]) -> Result<Vec<u8>> {
    vulkan::assemble(tables, stored)
}

/// Builds a `.ptd` file from arbitrary finished tables, with `data` as its blobs.
#[must_use]
pub fn external_file(tables: &[u8], data: &[u8]) -> Vec<u8> {
    [external::assemble(tables, Vec::new(), data.len() as u64).head.as_slice(), data].concat()
}

/// [`xnnpack::write_blob`] without verification.
///
/// # Errors
/// Tables that do not fit the blob's header.
pub fn write_xnnpack_blob(graph: &xnnpack::Graph, stored: &[u8]) -> Result<Vec<u8>> {
    xnnpack::write_blob_unverified(graph, stored)
}

/// Builds an XNNPACK delegate's blob from arbitrary finished tables, with `stored` as its constants.
///
/// # Errors
/// Tables that do not fit the blob's header.
pub fn xnnpack_blob_file(tables: &[u8], stored: &[u8]) -> Result<Vec<u8>> {
    xnnpack::assemble(tables, stored)
}
