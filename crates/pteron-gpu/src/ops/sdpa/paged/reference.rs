//! Paged attention on the host, in double precision.

use super::work_list::{BLOCK_POSITIONS, HEADER, Header, TILE_WORDS};
use super::{Heads, PagedSdpa};
use crate::error::OpError;
use crate::plan::PlanCx;
use crate::reference::{HostData, HostTensors};

impl PagedSdpa {
    pub(super) fn attend_on_host(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let q_dims = cx.dims(self.q);
        let heads = Heads::of(&q_dims, &cx.dims(self.k_pool))?;
        let work: Vec<usize> = tensors.i32(self.work).iter().map(|word| word.cast_unsigned() as usize).collect();
        let header = Header::read(tensors.i32(self.work)).ok_or_else(|| OpError::new("work", "is no work list"))?;
        let [dim, kv_heads, group] = [heads.dim, heads.kv_heads, heads.group].map(|size| size as usize);
        let (width, block_positions) = (kv_heads * dim, BLOCK_POSITIONS as usize);
        let mut pools = [self.k_pool, self.v_pool].map(|pool| tensors.f32(pool).to_vec());
        for pair in tensors.i32(self.copies).chunks_exact(2) {
            let [from, to] = [pair[0], pair[1]].map(|block| block.cast_unsigned() as usize * block_positions * width);
            pools.iter_mut().for_each(|pool| pool.copy_within(from..from + block_positions * width, to));
        }
        let tiles: Vec<&[usize]> =
            work[HEADER..].chunks_exact(TILE_WORDS).take((header.few + header.many) as usize).collect();
        let slot = |table: usize, at: usize| work[table + at / block_positions] * block_positions + at % block_positions;
        let new = [self.k, self.v].map(|tensor| tensors.f32(tensor).to_vec());
        for tile in &tiles {
            let &[_, end, first_token, position, table] = *tile else { continue };
            for token in first_token..end / group {
                let at = position + token - first_token;
                let to = slot(table, at) * width;
                let key = self.rotated(tensors, dim, &new[0][token * width..][..width], at);
                pools[0][to..to + width].copy_from_slice(&key);
                pools[1][to..to + width].copy_from_slice(&new[1][token * width..][..width]);
            }
        }
        let scale = self.scale.unwrap_or(1.0 / f64::from(heads.dim).sqrt());
        let mut out = vec![0.0f32; tensors.f32(self.q).len()];
        // Tiles of a sequence overlap nowhere, and their rows end with the sequence or the next tile.
        for tile in &tiles {
            let &[first, end, first_token, position, table] = *tile else { continue };
            for row in (first..end).take(32) {
                for head in 0..kv_heads {
                    let (token, at_query) = (row / group, ((row / group * kv_heads + head) * group + row % group) * dim);
                    let at = position + token - first_token;
                    let query = self.rotated(tensors, dim, &tensors.f32(self.q)[at_query..][..dim], at);
                    let cached = |pool: &[f32], at: usize| pool[slot(table, at) * width + head * dim..][..dim].to_vec();
                    let dot =
                        |key: Vec<f32>| -> f64 { query.iter().zip(key).map(|(a, b)| f64::from(*a) * f64::from(b)).sum() };
                    let scores: Vec<f64> = (0..=at).map(|at| scale * dot(cached(&pools[0], at))).collect();
                    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
                    let total: f64 = weights.iter().sum();
                    for (lane, result) in out[at_query..][..dim].iter_mut().enumerate() {
                        let value = |(at, weight): (usize, &f64)| weight * f64::from(cached(&pools[1], at)[lane]);
                        let sum: f64 = weights.iter().enumerate().map(value).sum();
                        #[allow(clippy::cast_possible_truncation, reason = "the result fits 32 bits")]
                        let rounded = (sum / total) as f32;
                        *result = rounded;
                    }
                }
            }
        }
        let pool_dims = cx.dims(self.k_pool);
        let [k_pool, v_pool] = pools;
        tensors.set(self.k_pool, pool_dims, HostData::F32(k_pool));
        tensors.set(self.v_pool, pool_dims, HostData::F32(v_pool));
        tensors.set(self.out, q_dims, HostData::F32(out));
        Ok(())
    }

    /// Heads with rotary embedding of a position, where there are tables.
    fn rotated(&self, tensors: &HostTensors, dim: usize, x: &[f32], position: usize) -> Vec<f32> {
        let Some(tables) = self.rotary else { return x.to_vec() };
        let [cosines, sines] = tables.map(|table| tensors.f32(table));
        let rotate = |(pair, x): (usize, &[f32])| {
            let angle = position * (dim / 2) + pair % (dim / 2);
            let [c, s, a, b] = [cosines[angle], sines[angle], x[0], x[1]].map(f64::from);
            #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
            let rotated = [(a * c - b * s) as f32, (a * s + b * c) as f32];
            rotated
        };
        x.chunks_exact(2).enumerate().flat_map(rotate).collect()
    }
}
