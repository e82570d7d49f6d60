// Compiles every kernel variant of a folder with Dawn, whose compiler (Tint) is the one in Chromium.
//
//   cargo run -p pteron-gpu --example kernels -- target/kernels fixtures
//   node web/tint/check.mjs target/kernels
//
// The folder holds kernels.json: name, file, bindings and constants of each variant. Exit status 1 if one of them is refused.
//
// Modules are parsed and checked, and pipelines with their constants and layouts, without a GPU: Dawn's null backend does all
// but ask a driver. `node check.mjs FOLDER vulkan` asks one too; in software (VK_ICD_FILENAMES names SwiftShader's) that takes
// seconds for each of the large kernels.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, globals } from 'webgpu';

Object.assign(globalThis, globals);

const TYPES = { uniform: 'uniform', read: 'read-only-storage', 'read-write': 'storage' };

// What every WebGPU device has; a kernel that asks for more must say so by being listed with `portable: false`.
async function openDevice(portable) {
  // An adapter gives one device.
  const adapter = await gpu.requestAdapter();
  const used = portable ? ['subgroups'] : ['subgroups', 'shader-f16'];
  const requiredFeatures = used.filter((feature) => adapter.features.has(feature));
  const wanted = ['maxComputeInvocationsPerWorkgroup', 'maxComputeWorkgroupSizeX', 'maxComputeWorkgroupStorageSize'];
  const requiredLimits = portable ? {} : Object.fromEntries(wanted.map((limit) => [limit, adapter.limits[limit]]));
  return adapter.requestDevice({ requiredFeatures, requiredLimits });
}

async function compile(device, code, variant) {
  device.pushErrorScope('validation');
  const module = device.createShaderModule({ label: variant.name, code });
  const { messages } = await module.getCompilationInfo();
  const entries = variant.bindings.map((kind, binding) => ({
    binding,
    visibility: GPUShaderStage.COMPUTE,
    buffer: { type: TYPES[kind], hasDynamicOffset: kind === 'uniform' },
  }));
  const layout = device.createPipelineLayout({ bindGroupLayouts: [device.createBindGroupLayout({ entries })] });
  const compute = { module, entryPoint: 'main', constants: variant.constants };
  let failure = null;
  try {
    await device.createComputePipelineAsync({ layout, compute });
  } catch (error) {
    failure = error.message;
  }
  const scope = await device.popErrorScope();
  const errors = messages.filter((message) => message.type === 'error');
  const lines = errors.map(({ lineNum, linePos, message }) => `${variant.file}:${lineNum}:${linePos}: ${message}`);
  if (lines.length === 0 && (failure ?? scope) !== null) {
    lines.push(failure ?? scope.message);
  }
  const warnings = messages.filter((message) => message.type === 'warning');
  lines.push(...warnings.map(({ lineNum, message }) => `${variant.file}:${lineNum}: warning: ${message}`));
  return lines;
}

const [folder, backend = 'null'] = process.argv.slice(2);
if (!folder) {
  console.error('usage: node check.mjs FOLDER [null | vulkan]');
  process.exit(2);
}
const variants = JSON.parse(readFileSync(join(folder, 'kernels.json'), 'utf8'));
const gpu = create([`backend=${backend}`]);
const adapter = await gpu.requestAdapter();
if (!adapter) {
  console.error(`Dawn has no adapter for ${backend}`);
  process.exit(2);
}
console.log(`adapter: ${adapter.info.description || adapter.info.device || backend}`);
const devices = { true: await openDevice(true), false: await openDevice(false) };

// A compiler that accepts anything would prove nothing.
const broken = { name: 'broken', file: 'broken', bindings: [], constants: {} };
const refused = await compile(devices.true, '@compute @workgroup_size(1) fn main() { let x: u32 = 1.5; }', broken);
if (refused.length === 0) {
  console.error('the compiler accepts what is no WGSL');
  process.exit(2);
}

const missing = ['subgroups', 'shader-f16'].filter((feature) => !devices.false.features.has(feature));
if (variants.some((variant) => !variant.portable) && missing.length > 0) {
  console.error(`this adapter has no ${missing.join(' and ')}, and some kernels need it`);
  process.exit(2);
}

let failed = 0;
for (const variant of variants) {
  const code = readFileSync(join(folder, variant.file), 'utf8');
  const lines = await compile(devices[variant.portable], code, variant);
  if (lines.length > 0) {
    failed += 1;
    console.log(`FAILED  ${variant.name} ${JSON.stringify(variant.constants)}\n  ${lines.join('\n  ')}`);
  }
}
console.log(`tint: ${variants.length - failed} of ${variants.length} variants accepted`);
process.exit(failed === 0 && variants.length > 0 ? 0 : 1);
