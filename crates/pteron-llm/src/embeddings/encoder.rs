//! Encoders: tokens and a mask in, rows of all tokens or one vector out.

use pteron::{Gpu, LoadOptions, Method, Program, ScalarType, State, Tensor, TensorSpec};

use super::pooling::{Pool, Pooling};
use crate::decode_step::integers;
use crate::error::{Error, Result};
use crate::model::ModelOptions;
use crate::tokenizer::TokenId;

/// Indices of the inputs. A third one, token types, is zero.
const TOKENS: usize = 0;
const MASK: usize = 1;
const MAX_INPUTS: usize = 3;

/// A program that takes tokens and a mask.
pub(super) struct Encoder {
    method: Method,
    state: State,
    /// Texts and tokens of a call.
    most: [u32; 2],
    /// Whether calls may have fewer.
    dynamic: bool,
}

/// The texts and tokens of a call, if a method takes them as an encoder does.
fn shape(inputs: &[TensorSpec], outputs: &[TensorSpec]) -> Option<[u32; 2]> {
    let tokens = inputs.first().filter(|spec| matches!(spec.scalar_type, ScalarType::Int | ScalarType::Long))?;
    let &[texts, longest] = tokens.shape.as_slice() else { return None };
    let same = inputs.iter().all(|spec| spec.shape == tokens.shape);
    let floats = [ScalarType::Float, ScalarType::Half, ScalarType::BFloat16];
    let output = outputs.first().filter(|spec| floats.contains(&spec.scalar_type))?;
    let rows = match output.shape[..] {
        [own, tokens, _] => own == texts && tokens == longest,
        [own, _] => own == texts,
        _ => false,
    };
    (same && rows && (MASK + 1..=MAX_INPUTS).contains(&inputs.len()) && texts > 0 && longest > 0).then_some([texts, longest])
}

impl Encoder {
    pub(super) async fn load(gpu: &Gpu, program: &Program, options: &ModelOptions) -> Result<Self> {
        let (inputs, outputs) = program.signature(&options.method)?;
        let most = shape(&inputs, &outputs).ok_or_else(|| {
            Error::NoHiddenStates(
                "it takes neither tokens [1, S] and a position nor tokens and a mask of the same shape, or returns no floats".to_owned(),
            )
        })?;
        let load = LoadOptions::default()
            .with_memory_budget(options.memory_budget)
            .with_progress(options.progress.clone())
            .with_precision(options.precision)
            .with_tuning(options.tuning);
        let method = program.load(gpu, &options.method, &load).await?;
        let state = method.new_state()?;
        let dynamic = inputs.iter().all(|spec| spec.dynamic);
        Ok(Self { method, state, most, dynamic })
    }

    pub(super) fn max_tokens(&self) -> u32 {
        self.most[1]
    }

    /// Returns the vector of each text.
    pub(super) fn run(&mut self, texts: &[&[TokenId]], pooling: Pooling) -> Result<Vec<Vec<f32>>> {
        let mut vectors = Vec::with_capacity(texts.len());
        for texts in texts.chunks(self.most[0] as usize) {
            vectors.extend(self.run_batch(texts, pooling)?);
        }
        Ok(vectors)
    }

    fn run_batch(&mut self, texts: &[&[TokenId]], pooling: Pooling) -> Result<Vec<Vec<f32>>> {
        let longest = texts.iter().map(|tokens| tokens.len()).max().unwrap_or(1);
        let columns = if self.dynamic { u32::try_from(longest).unwrap_or(u32::MAX) } else { self.most[1] };
        // A batch that the program fixes has rows that stand for nothing: all of them have one token.
        let shape = [self.most[0], columns];
        let inputs = self.method.inputs();
        let tensors =
            (0..inputs.len()).map(|index| input(&inputs[index], index, shape, texts)).collect::<Result<Vec<_>>>()?;
        let outputs = pteron::block_on(self.method.call(&mut self.state, &tensors))?;
        let output = outputs.first().and_then(|output| Some((output.shape().to_vec(), output.to_f32()?)));
        let (shape, numbers) = output.ok_or_else(|| Error::NoHiddenStates("it returned no floats".to_owned()))?;
        let width = (shape.last().copied().unwrap_or(0) as usize).max(1);
        let rows: Vec<&[f32]> = numbers.chunks_exact(width).collect();
        let per_text = (rows.len() / (self.most[0] as usize).max(1)).max(1);
        // A program that returns one vector per text has pooled its rows itself.
        let pooling = if shape.len() == 2 { Pooling::First } else { pooling };
        let pool = |(tokens, rows): (&&[TokenId], &[&[f32]])| {
            let mut pool = Pool::new(pooling, tokens.len());
            for (token, row) in rows.iter().enumerate() {
                if pool.needs(token) {
                    pool.add(row);
                }
            }
            pool.finish()
        };
        Ok(texts.iter().zip(rows.chunks(per_text)).map(pool).collect())
    }
}

/// An input of a call: tokens, their mask, or zeros.
fn input(spec: &TensorSpec, index: usize, shape: [u32; 2], texts: &[&[TokenId]]) -> Result<Tensor> {
    let columns = shape[1] as usize;
    let value = |row: usize, column: usize| -> u32 {
        let tokens = texts.get(row).copied().unwrap_or(&[0]);
        match index {
            TOKENS => tokens.get(column).copied().unwrap_or(0),
            MASK => u32::from(column < tokens.len()),
            _ => 0,
        }
    };
    let values = (0..shape[0] as usize).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let values = values.map(|(row, column)| value(row, column));
    #[expect(clippy::cast_precision_loss, reason = "a mask of zeros and ones")]
    let tensor = match spec.scalar_type {
        ScalarType::Bool => Tensor::new(ScalarType::Bool, &shape, values.map(|value| u8::from(value != 0)).collect())?,
        ScalarType::Float => {
            Tensor::new(ScalarType::Float, &shape, values.flat_map(|value| (value as f32).to_le_bytes()).collect())?
        }
        other => integers(other, &shape, values.map(i64::from))?,
    };
    Ok(tensor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(scalar_type: ScalarType, shape: &[u32]) -> TensorSpec {
        TensorSpec { scalar_type, shape: shape.to_vec(), dynamic: false }
    }

    #[test]
    fn encoders_are_known_by_their_signature() {
        let tokens = || spec(ScalarType::Long, &[2, 16]);
        let mask = || spec(ScalarType::Float, &[2, 16]);
        let rows = || spec(ScalarType::Float, &[2, 16, 8]);
        assert_eq!(shape(&[tokens(), mask()], &[rows()]), Some([2, 16]));
        assert_eq!(shape(&[tokens(), tokens(), tokens()], &[spec(ScalarType::Float, &[2, 8]), rows()]), Some([2, 16]));
        assert_eq!(shape(&[tokens()], &[rows()]), None, "no mask");
        assert_eq!(shape(&[tokens(), spec(ScalarType::Long, &[1])], &[rows()]), None, "a position");
        assert_eq!(shape(&[tokens(), mask()], &[spec(ScalarType::Float, &[3, 16, 8])]), None);
        assert_eq!(shape(&[mask(), mask()], &[rows()]), None, "no tokens");
    }

    #[test]
    fn texts_are_padded_with_a_mask() {
        let texts: [&[TokenId]; 1] = [&[7, 8]];
        let of = |scalar_type, index| input(&spec(scalar_type, &[2, 3]), index, [2, 3], &texts).unwrap();
        assert_eq!(of(ScalarType::Long, TOKENS).to_i64().unwrap(), [7, 8, 0, 0, 0, 0]);
        assert_eq!(of(ScalarType::Float, MASK).to_f32().unwrap(), [1.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
        assert_eq!(of(ScalarType::Bool, MASK).bytes(), [1, 1, 0, 1, 0, 0]);
        assert_eq!(of(ScalarType::Int, 2).to_i64().unwrap(), [0; 6]);
    }
}
