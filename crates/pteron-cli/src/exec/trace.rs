//! Writes the profile as a trace for `chrome://tracing` and ui.perfetto.dev.

use std::io::Write;
use std::path::Path;

use pteron::{AdapterSummary, Profile};
use serde_json::{Value, json};

use super::profile::{self, Call};
use crate::failure::Failure;
use crate::files;

const PROCESS: u32 = 1;
/// Threads of the trace, which viewers draw as rows.
const CALLS: u32 = 1;
const KERNELS: u32 = 2;

/// Writes a trace: a complete event per dispatch and one around each call, in microseconds of the GPU's clock.
pub(super) fn write(path: &Path, adapter: &AdapterSummary, calls: &[Call]) -> Result<(), Failure> {
    let trace = trace(adapter, calls);
    files::write(path, |out| {
        serde_json::to_writer(&mut *out, &trace)?;
        out.write_all(b"\n")
    })
}

fn trace(adapter: &AdapterSummary, calls: &[Call]) -> Value {
    let profiles = || calls.iter().flat_map(|call| &call.profile.graphs);
    // Without dispatches there are no events, and no time they are relative to.
    let origin = profiles().filter_map(start).min().unwrap_or(0);
    let mut events = vec![
        name("process_name", CALLS, &adapter.name),
        name("thread_name", CALLS, "calls"),
        name("thread_name", KERNELS, "kernels"),
    ];
    for (index, call) in calls.iter().enumerate() {
        events.extend(around(index, call, origin));
        for profile in &call.profile.graphs {
            events.extend(dispatches(index, profile, origin));
        }
    }
    json!({
        "displayTimeUnit": "ns",
        "otherData": {
            "adapter": adapter.name,
            "backend": adapter.backend,
            "driver": adapter.driver,
            "timing": profile::timing(calls),
        },
        "traceEvents": events,
    })
}

fn name(what: &str, thread: u32, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": PROCESS, "tid": thread, "args": { "name": name } })
}

fn start(profile: &Profile) -> Option<u64> {
    profile.dispatches.iter().map(|dispatch| dispatch.start).min()
}

/// The span of a call on the GPU; none if nothing ran there.
fn around(index: usize, call: &Call, origin: u64) -> Option<Value> {
    let profile = call.profile.graphs.first()?;
    let start = call.profile.graphs.iter().filter_map(start).min()?;
    let end = call.profile.graphs.iter().flat_map(|profile| &profile.dispatches).map(|dispatch| dispatch.end).max()?;
    Some(json!({
        "ph": "X",
        "cat": "call",
        "name": format!("call {index}: {}", call.name),
        "pid": PROCESS,
        "tid": CALLS,
        "ts": profile.nanoseconds(start.saturating_sub(origin)) / 1e3,
        "dur": profile.nanoseconds(end.saturating_sub(start)) / 1e3,
        "args": { "wall_us": call.wall.as_secs_f64() * 1e6 },
    }))
}

fn dispatches(call: usize, profile: &Profile, origin: u64) -> impl Iterator<Item = Value> {
    profile.dispatches.iter().map(move |dispatch| {
        json!({
            "ph": "X",
            "cat": "kernel",
            "name": dispatch.kernel,
            "pid": PROCESS,
            "tid": KERNELS,
            "ts": profile.nanoseconds(dispatch.start.saturating_sub(origin)) / 1e3,
            "dur": profile.duration(dispatch) / 1e3,
            "args": {
                "op": dispatch.operator,
                "kernel": dispatch.kernel,
                "grid": dispatch.grid,
                "bytes": dispatch.bytes,
                "call": call,
                "operator_call": dispatch.call,
            },
        })
    })
}
