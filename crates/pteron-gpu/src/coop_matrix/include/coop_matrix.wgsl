// Cooperative matrices of SIDE × SIDE: f16 factors, f32 sums. Kernels work in blocks of 16 × 16, which consist of PARTS · PARTS
// matrices. Matrices are loaded and stored through pointers to vectors of four, or to scalars (8 × 8: Metal has no others). E is the
// element of arrays of factors, F that of arrays of sums. Offsets in kernels count vectors.

// Elements per vector.
const PER_VECTOR: u32 = {VECTORS}u + 4u * {SCALARS}u;
// Elements between the rows of a block of 16 × 16, and vectors from one matrix in a block to the one below and the one beside it.
const BLOCK_ROW: u32 = 4u * PER_VECTOR;
const BELOW: u32 = 32u;
const BESIDE: u32 = 2u;
// Vectors of a block.
const BLOCK: u32 = 64u;
// Lanes of a subgroup; the fewest where the driver chooses.
const LANES: u32 = {LANES}u;
