//! Cooperative matrices and their subgroups in plain WGSL, so that kernels for sizes that no adapter at hand has can run on every adapter:
//! each thread holds whole matrices, in slots of one array, and a subgroup is a range of threads.

use crate::kernel::Variant;

/// How a device runs kernels with cooperative matrices that it does not have.
#[derive(Clone, Debug)]
pub(crate) struct Emulation {
    /// The lanes of a subgroup.
    pub(crate) lanes: u32,
    /// The variants that will run. Others with cooperative matrices are compiled as kernels that compute nothing, because drivers take
    /// seconds for each.
    pub(crate) used: Vec<Variant>,
}

impl Emulation {
    /// The source that is compiled for a variant.
    pub(crate) fn source(&self, variant: &Variant, source: &str) -> String {
        if side_of(source).is_some() && !self.used.contains(variant) {
            let constants = variant.constants.iter().map(|(name, _)| format!("override {name}: u32 = 0u;\n"));
            return constants.collect::<String>() + "@compute @workgroup_size(1)\nfn main() {\n}\n";
        }
        emulated(source, self.lanes)
    }
}

/// Returns the source of a kernel with cooperative matrices emulated, for subgroups of `lanes` threads.
fn emulated(source: &str, lanes: u32) -> String {
    // Kernels that only prepare factors enable the extension as well.
    let source = &source.replace("enable wgpu_cooperative_matrix;\n", "");
    let Some(side) = side_of(source) else { return source.to_owned() };
    let mut slots = Slots::default();
    let text = replace_types(source);
    let text = slots.assign(&text).replace("coopMultiplyAdd(", "multiply_matrices(");
    let text = text.replace("subgroupBarrier()", "workgroupBarrier()").replace("subgroupShuffleXor(", "exchange(");
    let mut functions: Vec<String> = slots.arrays.iter().map(|(array, store)| access(array, *store)).collect();
    functions.sort();
    functions.dedup();
    let (element, values) = if source.contains("alias E = f16;") { ("[i]", "1u") } else { ("[i / 4u][i % 4u]", "4u") };
    let functions = functions.concat().replace("ELEMENT", element).replace("VALUES", values);
    let text = format!("{}{MATRICES}{functions}", replace_subgroups(&text, lanes));
    text.replace("SIDE_ROWS", &format!("{side}u")).replace("SLOT_COUNT", &format!("{}u", slots.count))
}

const MATRICES: &str = "
alias Matrix = u32;
const MATRIX_SIZE: u32 = SIDE_ROWS * SIDE_ROWS;
var<private> matrices: array<f32, SLOT_COUNT * MATRIX_SIZE>;
// The rows of a matrix. Compilers do not know it, and do not unroll loops.
var<private> emulated_side: u32;
var<private> emulated_thread: u32;
var<workgroup> exchanged: array<f32, THREADS>;

fn exchange(v: f32, distance: u32) -> f32 {
    exchanged[emulated_thread] = v;
    workgroupBarrier();
    let other = exchanged[emulated_thread ^ distance];
    workgroupBarrier();
    return other;
}

fn zero_matrix(slot: u32) -> Matrix {
    for (var i = 0u; i < emulated_side * emulated_side; i++) {
        matrices[slot * MATRIX_SIZE + i] = 0.0;
    }
    return slot;
}

// In the place of the sum, which no kernel uses again.
fn multiply_matrices(a: Matrix, b: Matrix, sum: Matrix) -> Matrix {
    for (var i = 0u; i < emulated_side * emulated_side; i++) {
        var total = matrices[sum * MATRIX_SIZE + i];
        for (var k = 0u; k < emulated_side; k++) {
            total += matrices[a * MATRIX_SIZE + i / emulated_side * SIDE_ROWS + k]
                * matrices[b * MATRIX_SIZE + k * SIDE_ROWS + i % emulated_side];
        }
        matrices[sum * MATRIX_SIZE + i] = total;
    }
    return sum;
}
";

/// The function that loads from or stores to an array of vectors or scalars, which strides count.
fn access(array: &str, store: bool) -> String {
    let (head, index, body, end) = if store {
        (
            "fn matrix_to_ARRAY(matrix: Matrix, at: u32, stride: u32) {",
            "true",
            "ARRAYELEMENT = matrices[matrix * MATRIX_SIZE + m];",
            "",
        )
    } else {
        (
            "fn matrix_from_ARRAY(matrix: Matrix, row_major: bool, at: u32, stride: u32) -> Matrix {",
            "row_major",
            "matrices[matrix * MATRIX_SIZE + m] = f32(ARRAYELEMENT);",
            "return matrix;",
        )
    };
    let body = format!(
        "for (var m = 0u; m < emulated_side * emulated_side; m++) {{
            let row = select(m % SIDE_ROWS, m / SIDE_ROWS, {index});
            let column = select(m / SIDE_ROWS, m % SIDE_ROWS, {index});
            let i = (at + row * stride) * VALUES + column;
            {body}
        }}"
    );
    format!("\n{head}\n{body}\n{end}\n}}\n").replace("ARRAY", array)
}

/// The rows of the matrices in a source.
fn side_of(source: &str) -> Option<u32> {
    source.split("coop_mat").skip(1).find_map(|rest| rest.split_once('x')?.0.parse().ok())
}

/// Every matrix type becomes one.
fn replace_types(source: &str) -> String {
    let mut parts = source.split("coop_mat");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // Names of files have no type.
        match part.split_once('>').filter(|_| part.starts_with(|first: char| first.is_ascii_digit())) {
            Some((_, rest)) => out.extend(["Matrix", rest]),
            None => out.extend(["coop_mat", part]),
        }
    }
    out
}

/// Slots of matrices, one for each place in the source that makes one, and the arrays that are loaded from or stored to.
#[derive(Default)]
struct Slots {
    count: u32,
    arrays: Vec<(String, bool)>,
}

impl Slots {
    fn next(&mut self) -> String {
        self.count += 1;
        format!("{}u", self.count - 1)
    }

    /// Replaces what makes, loads and stores matrices.
    fn assign(&mut self, source: &str) -> String {
        // Functions that load a matrix, whose callers provide the slot.
        let loads = |line: &&str| line.starts_with("fn ") && line.ends_with("-> Matrix {") && !line.contains(": Matrix");
        let loaders: Vec<&str> =
            source.lines().filter(loads).filter_map(|line| Some(line.strip_prefix("fn ")?.split_once('(')?.0)).collect();
        let mut in_loader = false;
        let mut out = String::new();
        for line in source.lines() {
            let mut line = line.to_owned();
            if line.starts_with("fn ") {
                in_loader = loaders.iter().any(|name| line.starts_with(&format!("fn {name}(")));
            }
            if in_loader && line.starts_with("fn ") {
                line = line.replacen('(', "(slot: u32, ", 1);
            } else {
                for name in &loaders {
                    line = self.replace(&line, &format!("{name}("), |slot| format!("{name}({slot}, "));
                }
            }
            line = self.replace(&line, "Matrix()", |slot| format!("zero_matrix({slot})"));
            for (call, major) in [("coopLoadT<Matrix>(", "true"), ("coopLoad<Matrix>(", "false")] {
                line = self.access(&line, call, in_loader, |slot, name, index| {
                    format!("matrix_from_{name}({slot}, {major}, {index}")
                });
            }
            line =
                self.access(&line, "coopStoreT(", false, |matrix, name, index| format!("matrix_to_{name}({matrix}{index}"));
            out.extend([line.as_str(), "\n"]);
        }
        out
    }

    fn replace(&mut self, line: &str, what: &str, write: impl Fn(&str) -> String) -> String {
        let mut parts = line.split(what);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            out.extend([write(&self.next()).as_str(), part]);
        }
        out
    }

    /// Replaces `call BEFORE &NAME[INDEX]`: a load has nothing before, and gets a slot.
    fn access(&mut self, line: &str, call: &str, loader: bool, write: impl Fn(&str, &str, &str) -> String) -> String {
        let Some((before, rest)) = line.split_once(call) else { return line.to_owned() };
        let (matrix, rest) = rest.split_once('&').unwrap();
        let (name, rest) = rest.split_once('[').unwrap();
        let (index, rest) = rest.split_once(']').unwrap();
        self.arrays.push((name.to_owned(), !matrix.is_empty()));
        let slot = match matrix {
            "" if loader => "slot".to_owned(),
            "" => self.next(),
            stored => stored.to_owned(),
        };
        format!("{before}{}{rest}", write(&slot, name, index))
    }
}

/// Subgroups become ranges of threads.
fn replace_subgroups(source: &str, lanes: u32) -> String {
    let values = [
        ("subgroup_id", format!("emulated_thread / {lanes}u")),
        ("subgroup_invocation_id", format!("emulated_thread % {lanes}u")),
        ("subgroup_size", format!("{lanes}u")),
        ("num_subgroups", format!("THREADS / {lanes}u")),
        ("local_invocation_index", "emulated_thread".to_owned()),
    ];
    let (before, main) = source.split_once("fn main(").unwrap();
    let (params, body) = main.split_once(") {\n").unwrap();
    let mut params = params.to_owned();
    let mut lets = String::from("emulated_thread = emulated_index;\nemulated_side = SIDE_ROWS + emulated_index / 4096u;\n");
    for (builtin, value) in values {
        if let Some((first, rest)) = params.split_once(&format!("@builtin({builtin}) ")) {
            let (name, rest) = rest.split_once(": u32").unwrap();
            lets += &format!("let {name} = {value};\n");
            params = format!("{first}{}", rest.strip_prefix(',').unwrap_or(rest));
        }
    }
    let index = "@builtin(local_invocation_index) emulated_index: u32";
    format!("{before}fn main({index}, {params}) {{\n{lets}{body}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_stores_and_subgroups_are_replaced() {
        let source = "enable wgpu_cooperative_matrix;\nalias E = f16;\n\
            fn load_x(at: u32) -> coop_mat8x8<f16, A> {\n    let m = coopLoad<coop_mat8x8<f16, A>>(&x[at], 4u);\n    return m;\n}\n\
            fn main(@builtin(subgroup_id) subgroup: u32) {\n    let a = coopLoadT<coop_mat8x8<f16, A>>(&y[at], 4u);\n    \
            let b = load_x(7u);\n    coopStoreT(coopMultiplyAdd(a, b, coop_mat8x8<f32, C>()), &sums[0u], stride);\n}\n";
        let text = emulated(source, 16);
        assert!(!text.contains("coop") && text.contains("array<f32, 3u * MATRIX_SIZE>"), "{text}");
        for part in [
            "fn load_x(slot: u32, at: u32) -> Matrix {\n    let m = matrix_from_x(slot, false, at, 4u);",
            "let subgroup = emulated_thread / 16u;",
            "let a = matrix_from_y(0u, true, at, 4u);\n    let b = load_x(1u, 7u);",
            "matrix_to_sums(multiply_matrices(a, b, zero_matrix(2u)), 0u, stride);",
            "const MATRIX_SIZE: u32 = 8u * 8u;",
            "f32(y[i])",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(emulated("fn main() {\n}\n", 32), "fn main() {\n}\n");
    }
}
