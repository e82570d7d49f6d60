//! libFuzzer over GGUF files.

#![no_main]
#![allow(unsafe_code, reason = "libFuzzer calls the target by its unmangled name")]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    pteron_fuzz::gguf(bytes);
});
