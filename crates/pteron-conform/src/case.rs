//! Runs one case and compares its outputs.

use std::collections::HashMap;
use std::path::Path;

use pteron::{Gpu, LoadOptions, Method, Program, ScalarType, State, Tensor, block_on};

use crate::manifest::{Call, Case, File, Origin};
use crate::{Failure, convert};

/// How a case ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Passed {
        calls: usize,
    },
    /// The program needs something that this runtime reports as unsupported.
    Missing(String),
    Failed(String),
}

/// Runs the calls of a case in order, on one state per method.
pub(crate) fn run(gpu: &Gpu, case: &Case, options: &LoadOptions, keep: Option<&Path>) -> Outcome {
    let program = match open(case, keep) {
        Ok(program) => program,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let mut methods: HashMap<String, (Method, State)> = HashMap::new();
    for (index, call) in case.calls.iter().enumerate() {
        let name = call.method.clone().unwrap_or_else(|| case.method.clone());
        if !methods.contains_key(&name) {
            match load(gpu, &program, &name, options) {
                Ok(loaded) => methods.insert(name.clone(), loaded),
                Err(pteron::Error::UnsupportedOperators(names)) => {
                    let names: Vec<String> = names.into_iter().map(|(name, _)| name).collect();
                    return Outcome::Missing(names.join(", "));
                }
                Err(pteron::Error::Unsupported { reason, .. }) => return Outcome::Missing(reason),
                Err(error) => return Outcome::Failed(error.to_string()),
            };
        }
        let Some((method, state)) = methods.get_mut(&name) else { return Outcome::Failed("no such method".into()) };
        if let Err(failure) = run_call(case, call, method, state) {
            return Outcome::Failed(format!("call {index}: {failure}"));
        }
    }
    Outcome::Passed { calls: case.calls.len() }
}

fn open(case: &Case, keep: Option<&Path>) -> Result<Program, Failure> {
    match &case.program {
        Origin::File(path) => Program::open_with(path, &case.data),
        Origin::Checkpoint(path, wanted) => {
            let keep = keep.map(|keep| keep.join(&case.below));
            Program::from_bytes(convert::convert(path, wanted, keep.as_deref())?, Vec::new())
        }
    }
    .map_err(|error| Failure::Output(error.to_string()))
}

fn load(gpu: &Gpu, program: &Program, name: &str, options: &LoadOptions) -> pteron::Result<(Method, State)> {
    let method = block_on(program.load(gpu, name, options))?;
    let state = method.new_state()?;
    Ok((method, state))
}

fn run_call(case: &Case, call: &Call, method: &Method, state: &mut State) -> Result<(), Failure> {
    let inputs = call.inputs.iter().map(|file| read(case, file)).collect::<Result<Vec<_>, _>>()?;
    let outputs = block_on(method.call(state, &inputs)).map_err(|error| Failure::Output(error.to_string()))?;
    for golden in &call.goldens {
        let want = read(case, golden)?;
        let place = format!("output {}", golden.output_index);
        let Some(got) = outputs.get(golden.output_index) else {
            return Err(Failure::Output(format!("{place} is missing; there are {}", outputs.len())));
        };
        compare(&place, got, &want, case.atol, case.rtol)?;
        if let Some(expected) = call.argmax {
            let values = got.to_f32().unwrap_or_default();
            let last = got.shape().last().map_or(0, |&last| last as usize);
            let found = argmax(&values[values.len().saturating_sub(last)..]);
            if found != Some(expected) {
                return Err(Failure::Output(format!("{place}: the largest is {found:?}, expected {expected}")));
            }
        }
    }
    Ok(())
}

fn argmax(values: &[f32]) -> Option<usize> {
    let best = |best: Option<usize>, (index, value): (usize, &f32)| match best {
        Some(at) if values[at] >= *value => Some(at),
        _ => Some(index),
    };
    values.iter().enumerate().fold(None, best)
}

fn read(case: &Case, file: &File) -> Result<Tensor, Failure> {
    let path = case.folder.join(&file.path);
    let bytes = std::fs::read(&path).map_err(|error| Failure::file(&path, &error))?;
    let Some(&scalar_type) = ScalarType::ALL.iter().find(|scalar_type| scalar_type.name() == file.dtype) else {
        return Err(Failure::Output(format!("{} has unknown type {}", path.display(), file.dtype)));
    };
    Tensor::new(scalar_type, &file.shape, bytes).map_err(|error| Failure::Output(format!("{}: {error}", path.display())))
}

/// An element passes if it is close absolutely or relatively; NaN equals NaN. Expected outputs of 16-bit programs are 32-bit floats.
fn compare(place: &str, got: &Tensor, want: &Tensor, atol: f64, rtol: f64) -> Result<(), Failure> {
    let fail = |text: String| Err(Failure::Output(format!("{place}: {text}")));
    let same_type = got.scalar_type() == want.scalar_type()
        || want.scalar_type() == ScalarType::Float
            && matches!(got.scalar_type(), ScalarType::Half | ScalarType::BFloat16 | ScalarType::Double);
    if !same_type || got.shape() != want.shape() {
        return fail(format!(
            "is {} {:?}, expected {} {:?}",
            got.scalar_type().name(),
            got.shape(),
            want.scalar_type().name(),
            want.shape()
        ));
    }
    let (Some(got_values), Some(want_values)) = (got.to_f32(), want.to_f32()) else {
        return if got.bytes() == want.bytes() { Ok(()) } else { fail("differs".to_owned()) };
    };
    for (index, (&got, &want)) in got_values.iter().zip(&want_values).enumerate() {
        let (got, want) = (f64::from(got), f64::from(want));
        let difference = (got - want).abs();
        // Any value is within a relative tolerance of infinity, so values that are not finite must be equal.
        let close = want.is_finite() && (difference <= atol || difference <= rtol * want.abs());
        if !(close || got == want || (got.is_nan() && want.is_nan())) {
            return fail(format!("element {index} is {got}, expected {want}"));
        }
    }
    Ok(())
}
