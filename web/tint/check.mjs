// Compiles every kernel variant of a folder with Dawn, whose compiler (Tint) is the one in Chromium.
//
//   cargo run -p pteron-gpu --example kernels -- target/kernels fixtures
//   node web/tint/check.mjs target/kernels
//
// The folder holds kernels.json: name, file, bindings and constants of each variant. Exit status 1 if one of them is refused.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, globals } from 'webgpu';

Object.assign(globalThis, globals);

const TYPES = { uniform: 'uniform', read: 'read-only-storage', 'read-write': 'storage' };

// What every WebGPU device has; a kernel that asks for more must say so by being listed with `portable: false`.
async function openDevice(adapter, portable) {
  const requiredFeatures = ['subgroups'].filter((feature) => adapter.features.has(feature));
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

const [folder] = process.argv.slice(2);
if (!folder) {
  console.error('usage: node check.mjs FOLDER');
  process.exit(2);
}
const variants = JSON.parse(readFileSync(join(folder, 'kernels.json'), 'utf8'));
const adapter = await create([]).requestAdapter();
if (!adapter) {
  console.error('Dawn found no adapter; SwiftShader of Debian\'s chromium is one (VK_ICD_FILENAMES)');
  process.exit(2);
}
console.log(`adapter: ${adapter.info.description || adapter.info.device}`);
const devices = { true: await openDevice(adapter, true), false: await openDevice(adapter, false) };

// A compiler that accepts anything would prove nothing.
const broken = { name: 'broken', file: 'broken', bindings: [], constants: {} };
const refused = await compile(devices.true, '@compute @workgroup_size(1) fn main() { let x: u32 = 1.5; }', broken);
if (refused.length === 0) {
  console.error('the compiler accepts what is no WGSL');
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
