//! All targets in one libFuzzer binary. Without the name of a target in its environment, it is the farm: it runs itself in slices.

#![no_main]
#![allow(unsafe_code, improper_ctypes_definitions, reason = "libFuzzer calls these functions by their unmangled names")]

use libfuzzer_sys::fuzz_mutator;
use pteron_fuzz::farm;

/// Called once, before anything else.
#[unsafe(no_mangle)]
pub extern "C" fn LLVMFuzzerInitialize(_argc: *const isize, _argv: *const *const *const u8) -> isize {
    farm::initialize();
    0
}

/// Called for every input.
#[unsafe(no_mangle)]
pub extern "C" fn rust_fuzzer_test_input(bytes: &[u8]) -> i32 {
    farm::execute(bytes);
    0
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| { farm::mutate(data, size, max_size, seed) });
