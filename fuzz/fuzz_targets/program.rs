//! libFuzzer over `.pte` files.

#![no_main]
#![allow(unsafe_code, reason = "libFuzzer calls the target by its unmangled name")]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|bytes: &[u8]| {
    pteron_fuzz::program(bytes);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    pteron_fuzz::mutate::libfuzzer(data, size, max_size, seed)
});
