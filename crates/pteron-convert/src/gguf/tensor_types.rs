//! The tensor types of GGUF.

use super::blocks;

/// A tensor type. Elements are stored in blocks of a fixed size.
pub(super) struct TensorType {
    pub(super) id: u32,
    pub(super) name: &'static str,
    /// Elements per block.
    pub(super) block: usize,
    /// Bytes per block.
    bytes: usize,
    /// Dequantises whole blocks.
    pub(super) unpack: fn(&[u8], &mut [f32]),
}

macro_rules! tensor_types {
    ($($id:literal $name:ident: $block:literal numbers in $bytes:literal bytes by $unpack:path;)+) => {
        /// All supported types.
        pub(super) static TENSOR_TYPES: &[TensorType] = &[$(TensorType {
            id: $id,
            name: stringify!($name),
            block: $block,
            bytes: $bytes,
            unpack: |row, out| each::<$bytes, $block>(row, out, $unpack),
        }),+];
    };
}

tensor_types! {
    0 F32: 1 numbers in 4 bytes by blocks::f32;
    1 F16: 1 numbers in 2 bytes by blocks::f16;
    30 BF16: 1 numbers in 2 bytes by blocks::bf16;
    8 Q8_0: 32 numbers in 34 bytes by blocks::q8_0;
    2 Q4_0: 32 numbers in 18 bytes by blocks::q4_0;
    3 Q4_1: 32 numbers in 20 bytes by blocks::q4_1;
    6 Q5_0: 32 numbers in 22 bytes by blocks::q5_0;
    7 Q5_1: 32 numbers in 24 bytes by blocks::q5_1;
    12 Q4_K: 256 numbers in 144 bytes by blocks::q4_k;
    13 Q5_K: 256 numbers in 176 bytes by blocks::q5_k;
    14 Q6_K: 256 numbers in 210 bytes by blocks::q6_k;
}

/// The type id whose rows are passed through without quantising again.
pub(super) const Q4_0: u32 = 2;

/// Names of types that are not supported.
const OTHERS: [(u32, &str); 22] = [
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
];

/// Returns the type with this id.
pub(super) fn kind(id: u32) -> Option<&'static TensorType> {
    TENSOR_TYPES.iter().find(|kind| kind.id == id)
}

/// Returns the name of a type, supported or not.
pub(super) fn tensor_type_name(id: u32) -> String {
    let known = TENSOR_TYPES.iter().map(|kind| (kind.id, kind.name)).chain(OTHERS).find(|&(other, _)| other == id);
    known.map_or_else(|| format!("number {id}"), |(_, name)| name.to_owned())
}

impl TensorType {
    /// Returns the bytes of a row of this many elements, if that is a whole number of blocks.
    pub(super) fn row_bytes(&self, numbers: u64) -> Option<u64> {
        let block = self.block as u64;
        if numbers.is_multiple_of(block) { (numbers / block).checked_mul(self.bytes as u64) } else { None }
    }
}

impl std::fmt::Debug for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

fn each<const BYTES: usize, const LEN: usize>(row: &[u8], out: &mut [f32], unpack: fn(&[u8; BYTES], &mut [f32; LEN])) {
    let (blocks, numbers) = (row.as_chunks().0, out.as_chunks_mut().0);
    for (block, numbers) in blocks.iter().zip(numbers) {
        unpack(block, numbers);
    }
}
