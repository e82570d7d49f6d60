//! Changes to fields of external data.

use fastrand::Rng;
use pteron_format::external::{Entry, ExternalData, TensorLayout};
use pteron_format::program::SegmentId;
use pteron_format::{Float, ScalarType};

use super::atoms::{data, index, list, name, number, number32};

pub(super) fn mutate(rng: &mut Rng, content: &mut ExternalData<Vec<u8>>) {
    let segments = content.segments.len();
    match rng.u8(..8) {
        0 => content.version = number32(rng, content.version),
        1 | 2 => list(rng, &mut content.segments, data),
        3 if content.entries.is_empty() => {
            content.entries.push(Entry { key: "x".to_owned(), segment: SegmentId(0), layout: None });
        }
        _ => {
            let lens: Vec<usize> = content.segments.iter().map(Vec::len).collect();
            list(rng, &mut content.entries, |rng, entry| match rng.u8(..6) {
                0 => name(rng, &mut entry.key),
                1 => entry.segment = SegmentId(index(rng, entry.segment.0, segments)),
                2 if entry.layout.is_some() => entry.layout = None,
                _ => {
                    let bytes = lens.get(entry.segment.index()).copied().unwrap_or(0);
                    layout(rng, entry.layout.get_or_insert_with(|| bytes_layout(bytes)));
                }
            });
        }
    }
}

/// A tensor layout of `len` unsigned bytes.
fn bytes_layout(len: usize) -> TensorLayout {
    TensorLayout { scalar_type: ScalarType::Byte, sizes: vec![u32::try_from(len).unwrap_or(u32::MAX)], dim_order: vec![0] }
}

fn layout(rng: &mut Rng, layout: &mut TensorLayout) {
    match rng.u8(..4) {
        0 => layout.scalar_type = scalar_type(rng),
        1 => list(rng, &mut layout.sizes, |rng, size| *size = number32(rng, *size)),
        2 => list(rng, &mut layout.dim_order, |rng, dim| *dim = rng.u8(..20)),
        _ => {
            let dim = u8::try_from(layout.sizes.len()).unwrap_or(u8::MAX);
            layout.sizes.push(1);
            layout.dim_order.push(dim);
        }
    }
}

/// Any element type.
pub(super) fn scalar_type(rng: &mut Rng) -> ScalarType {
    *rng.choice(ScalarType::ALL).unwrap_or(&ScalarType::Byte)
}

/// Any float, by its bits.
pub(super) fn float(rng: &mut Rng) -> Float {
    Float(f64::from_bits(number(rng, 0)))
}
