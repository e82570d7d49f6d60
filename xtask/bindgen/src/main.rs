//! `pteron-bindgen IN.wasm OUT_DIR`: the work of `wasm-bindgen --target web`.

use anyhow::{Result, bail};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [wasm, folder] = args.as_slice() else { bail!("usage: pteron-bindgen IN.wasm OUT_DIR") };
    let mut bindgen = Bindgen::new();
    // Function names help debuggers only and would be downloaded.
    bindgen.input_path(wasm).typescript(true).remove_name_section(true).web(true)?;
    bindgen.generate(folder)
}
