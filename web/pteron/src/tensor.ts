import type { RawTensor } from "./engine.js";
import { PteronError } from "./errors.js";

/** What a tensor's elements are. */
export type DType = "float32" | "float16" | "int64" | "int32" | "int8" | "uint8" | "bool";

/**
 * A tensor: its elements row by row.
 *
 * `data` belongs to `dtype`: `Float32Array`, `BigInt64Array` for int64, `Int32Array`, `Int8Array`, `Uint8Array` for uint8 and
 * bool, and for float16 a `Uint16Array` of its bits (or a `Float16Array` where the browser has it, which results then use).
 */
export interface Tensor {
  dtype: DType;
  shape: readonly number[];
  data: TensorData;
}

/** The arrays that hold a tensor's elements. */
export type TensorData = Float32Array | BigInt64Array | Int32Array | Int8Array | Uint8Array | Uint16Array | Float16Data;

/** A `Float16Array`, of which not every TypeScript library knows. */
export interface Float16Data extends ArrayBufferView {
  readonly length: number;
  readonly BYTES_PER_ELEMENT: number;
  [index: number]: number;
}

type ArrayType = { new (buffer: ArrayBuffer): TensorData; readonly name: string; readonly BYTES_PER_ELEMENT: number };

const float16 = (globalThis as { Float16Array?: ArrayType }).Float16Array;

/** The arrays that each type takes; results come in the first. */
const ARRAYS: Record<DType, ArrayType[]> = {
  float32: [Float32Array],
  float16: float16 ? [float16, Uint16Array] : [Uint16Array],
  int64: [BigInt64Array],
  int32: [Int32Array],
  int8: [Int8Array],
  uint8: [Uint8Array],
  bool: [Uint8Array],
};

function refuse(which: string, reason: string): never {
  throw new PteronError("input", `${which}: ${reason}`);
}

function arraysOf(dtype: string, which: string): ArrayType[] {
  return ARRAYS[dtype as DType] ?? refuse(which, `there is no dtype ${dtype}; there are ${Object.keys(ARRAYS).join(", ")}`);
}

/** A tensor as the engine takes it. */
export function toRaw({ dtype, shape, data }: Tensor, index: number): RawTensor {
  const which = `input ${index}`;
  const arrays = arraysOf(dtype, which);
  if (!arrays.some((type) => data instanceof type)) {
    const given = data?.constructor?.name ?? typeof data;
    refuse(which, `${dtype} needs ${arrays.map((type) => type.name).join(" or ")}, not ${given}`);
  }
  const wrong = shape.find((size) => !Number.isSafeInteger(size) || size < 0);
  if (wrong !== undefined) refuse(which, `the shape has a size of ${wrong}`);
  const elements = shape.reduce((product, size) => product * size, 1);
  if (elements !== data.length) {
    refuse(which, `a shape of ${shape.join(" × ") || "one element"} has ${elements} elements, and data has ${data.length}`);
  }
  return { dtype, shape: [...shape], bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) };
}

/** What the engine answered, as a tensor with memory of its own. */
export function fromRaw({ dtype, shape, bytes }: RawTensor): Tensor {
  const [type] = arraysOf(dtype, "an output");
  const own = bytes.slice().buffer;
  return { dtype: dtype as DType, shape, data: new (type as ArrayType)(own) };
}
