// Comparison of tensors with PyTorch's outputs.

import assert from 'node:assert/strict';

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  int64: BigInt64Array,
  int32: Int32Array,
  int8: Int8Array,
  uint8: Uint8Array,
  bool: Uint8Array,
};

/** The value of the bits of a 16-bit float. */
function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

function numbers(bytes, dtype) {
  const aligned = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  const values = Array.from(new ARRAYS[dtype](aligned));
  return dtype === 'float16' ? values.map(fromHalf) : values;
}

/** Fails unless `actual` has the type, the shape and, within the tolerances, the values of `golden`. */
export function assertClose(actual, golden, { atol, rtol }, where) {
  assert.equal(actual.dtype, golden.dtype, `${where}: dtype`);
  assert.deepEqual(actual.shape, golden.shape, `${where}: shape`);
  const got = numbers(actual.bytes, actual.dtype);
  const wanted = numbers(golden.bytes, golden.dtype);
  assert.equal(got.length, wanted.length, `${where}: elements`);
  for (const [i, want] of wanted.entries()) {
    const is = got[i];
    if (Object.is(is, want) || is === want) continue;
    const close = typeof want === 'number' && Math.abs(is - want) <= Math.max(atol, rtol * Math.abs(want));
    assert.ok(close, `${where}: element ${i} is ${is}, PyTorch says ${want}`);
  }
}
