import type { RawTensor } from "./engine.js";
import { PteronError } from "./errors.js";

/** The array types of each element type. */
interface Arrays {
  float32: Float32Array;
  float64: Float64Array;
  /** The bits, or a `Float16Array` if the browser has it; results then use that. */
  float16: Uint16Array | Float16Data;
  int64: BigInt64Array;
  int32: Int32Array;
  int8: Int8Array;
  uint8: Uint8Array;
  bool: Uint8Array;
}

/** The element type of a tensor. */
export type DType = keyof Arrays;

/** The arrays that hold a tensor's elements. */
export type TensorData = Arrays[DType];

/** A tensor: its elements row by row, in the array that belongs to its `dtype`. */
export type Tensor = { [D in DType]: { dtype: D; shape: readonly number[]; data: Arrays[D] } }[DType];

/** A `Float16Array`, which not every TypeScript library declares. */
export interface Float16Data extends ArrayBufferView {
  readonly length: number;
  readonly BYTES_PER_ELEMENT: number;
  [index: number]: number;
}

type ArrayType = { new (buffer: ArrayBuffer): TensorData; readonly name: string; readonly BYTES_PER_ELEMENT: number };

const float16 = (globalThis as { Float16Array?: ArrayType }).Float16Array;

/** The array types that each element type accepts; results use the first. */
const ARRAYS: Record<DType, ArrayType[]> = {
  float32: [Float32Array],
  float64: [Float64Array],
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
  // A copy: the call may run later, after others, and the caller may have overwritten the array by then.
  return { dtype, shape: [...shape], bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice() };
}

/** Copies an output of the engine to a tensor. */
export function fromRaw({ dtype, shape, bytes }: RawTensor): Tensor {
  const [type] = arraysOf(dtype, "an output");
  const own = bytes.slice().buffer;
  return { dtype, shape, data: new (type as ArrayType)(own) } as Tensor;
}
