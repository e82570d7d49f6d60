//! Invalid calls: exit status 1 and one sentence that names the file, the array, the value and the allowed values.

use super::arrays::{Array, named, save};
use super::{Scratch, pteron};

const ADD: &str = "fixtures/ops/add_same/program.pte";
const LLAMA: &str = "fixtures/llama/tiny_4w/program.pte";

/// Calls a program with a file of these bytes; the sentence, the file's path replaced.
fn sentence(program: &str, bytes: &[u8], more: &[&str]) -> String {
    let scratch = Scratch::new(&format!("refused-{:?}", std::thread::current().id()));
    let file = scratch.file("call.npz", bytes);
    let out = scratch.0.join("out").to_string_lossy().into_owned();
    let run = pteron(["exec", program, "--in", &file, "--out", &out, "--quiet"].iter().chain(more));
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "one sentence: {}", run.err);
    assert!(!scratch.0.join("out/0.npz").exists(), "nothing is written");
    run.err.trim_end().strip_prefix("error: ").unwrap().replace(&file, "call.npz")
}

fn llama(tokens: Array, position: i64) -> String {
    sentence(LLAMA, &save(&[tokens, Array::longs(&[1], &[position])]), &[])
}

#[test]
fn arrays_the_method_does_not_take() {
    let ones = || Array::floats(&[3, 5], &[1.0; 15]);
    let takes = "\"forward\" takes arr_0 (float32 [3, 5]), arr_1 (float32 [3, 5])";
    assert_eq!(
        sentence(ADD, &save(&[ones()]), &[]),
        format!("call.npz: there is no array arr_1; {takes}, and the file has arr_0")
    );
    assert_eq!(
        sentence(ADD, &named(&[("x", ones().npy()), ("y", ones().npy())], false), &[]),
        format!("call.npz: there is no array arr_0; {takes}, and the file has x, y")
    );
    assert_eq!(
        sentence(ADD, &named(&[], false), &[]),
        format!("call.npz: there is no array arr_0; {takes}, and the file has no arrays")
    );
    assert_eq!(
        sentence(ADD, &save(&[ones(), ones(), ones()]), &[]),
        format!("call.npz: the array arr_2 is one too many; {takes}")
    );
    let doubles = Array::new("<f8", &[3, 5], &[0; 120]);
    assert_eq!(sentence(ADD, &save(&[doubles, ones()]), &[]), "call.npz: arr_0 is float64, but the method takes float32");
    for (shape, text) in [(&[15][..], "[15]"), (&[5, 3], "[5, 3]"), (&[1, 3, 5], "[1, 3, 5]")] {
        let other = Array::floats(shape, &[1.0; 15]);
        assert_eq!(
            sentence(ADD, &save(&[ones(), other]), &[]),
            format!("call.npz: arr_1 has shape {text}, allowed is [3, 5]")
        );
    }
}

#[test]
fn values_a_language_model_does_not_take() {
    let long = Array::longs(&[1, 128], &[1; 128]);
    assert_eq!(llama(long, 0), "call.npz: arr_0 has shape [1, 128], allowed is up to [1, 127]");
    let ints = Array::new("<i4", &[1, 1], &[1, 0, 0, 0]);
    assert_eq!(llama(ints, 0), "call.npz: arr_0 is int32, but the method takes int64");
    for token in [256, -1] {
        let text = llama(Array::longs(&[1, 2], &[7, token]), 0);
        assert_eq!(text, format!("call.npz: arr_0 holds {token}, allowed is 0 to 255"));
    }
    let text = llama(Array::longs(&[1, 1], &[1 << 32]), 0);
    assert_eq!(text, "call.npz: arr_0 holds 4294967296, allowed is -2147483648 to 2147483647");
    let text = llama(Array::longs(&[1, 3], &[1, 2, 3]), 126);
    assert!(text.starts_with("call.npz: ") && text.ends_with("; the call was arr_0 [1, 3], arr_1 = 126"), "{text}");
    let text = llama(Array::longs(&[1, 1], &[1]), -1);
    assert!(text.starts_with("call.npz: ") && text.ends_with("; the call was arr_0 = 1, arr_1 = -1"), "{text}");
}

/// The error of a rejected call names the call; outputs of the calls before it are written.
#[test]
fn a_later_call_fails_alone() {
    let scratch = Scratch::new("later");
    let good = scratch.file("good.npz", &save(&[Array::longs(&[1, 1], &[1]), Array::longs(&[1], &[0])]));
    let bad = scratch.file("bad.npz", &save(&[Array::longs(&[1, 1], &[300]), Array::longs(&[1], &[1])]));
    let out = scratch.0.join("out").to_string_lossy().into_owned();
    let run = pteron(["exec", LLAMA, "--in", &good, "--in", &bad, "--out", &out, "-q"]);
    assert_eq!((run.code, run.err), (Some(1), format!("error: {bad}: arr_0 holds 300, allowed is 0 to 255\n")));
    assert!(scratch.0.join("out/0.npz").exists() && !scratch.0.join("out/1.npz").exists());
}

#[test]
fn files_that_are_no_arrays() {
    let ones = Array::floats(&[3, 5], &[1.0; 15]);
    let good = save(&[ones.clone(), ones.clone()]);
    let text = sentence(ADD, b"hello, world", &[]);
    assert!(text.starts_with("call.npz: it is not an archive of numpy.savez: "), "{text}");
    assert!(sentence(ADD, &good[..good.len() / 2], &[]).starts_with("call.npz: it is not an archive of numpy.savez: "));
    assert_eq!(
        sentence(ADD, &ones.npy(), &[]),
        "call.npz: it is a single array (.npy); save it with numpy.savez, which names it arr_0"
    );
    assert!(
        sentence(ADD, b"", &[]).starts_with("call.npz: the file is empty; a file of arrays (.npz) has at least a header")
    );
    let mut damaged = good.clone();
    let at = damaged.windows(6).position(|bytes| bytes == b"\x93NUMPY").unwrap();
    damaged[at + 90] ^= 1;
    assert!(sentence(ADD, &damaged, &[]).starts_with("call.npz: arr_0 is damaged: "));
    assert_eq!(
        sentence(ADD, &named(&[("arr_0", b"PK".to_vec())], false), &[]),
        "call.npz: arr_0 is not a NumPy array: it does not start with \\x93NUMPY"
    );
    let other = Array { descr: ">f4".to_owned(), ..ones.clone() };
    assert_eq!(
        sentence(ADD, &save(&[other]), &[]),
        "call.npz: arr_0 is big-endian (\">f4\"); save it with .astype(\"<f4\")"
    );
    let other = Array { descr: "<c8".to_owned(), ..ones.clone() };
    assert!(sentence(ADD, &save(&[other]), &[]).starts_with("call.npz: arr_0 has elements \"<c8\", supported are bool, "));
    let short = Array::new("<f4", &[3, 5], &[0; 56]);
    assert_eq!(sentence(ADD, &save(&[short]), &[]), "call.npz: arr_0 needs 60 bytes of elements, but holds 56");
    let twice = named(&[("arr_0", ones.npy()), ("arr_0", ones.npy())], false);
    assert_eq!(sentence(ADD, &twice, &[]), "call.npz: arr_0 is in it twice");
    let run = pteron(["exec", ADD, "--in", "no/such.npz", "--out", "no/such", "-q"]);
    assert_eq!((run.code, run.err.as_str()), (Some(1), "error: no/such.npz: there is no such file\n"));
}

#[test]
fn programs_that_cannot_be_called_so() {
    let none = named(&[], false);
    let two = "fixtures/ops/two_methods/program.pte";
    assert_eq!(sentence(ADD, &none, &["--method", "fly"]), format!("{ADD}: it has no method \"fly\"; it has forward"));
    assert_eq!(
        sentence(LLAMA, &none, &["--method", "get_vocab_size"]),
        format!("{LLAMA}: method \"get_vocab_size\" returns a constant, which `pteron inspect` shows")
    );
    let text = sentence(two, &none, &[]);
    assert!(text.starts_with(&format!("{two}: it has no method \"forward\"; choose one of ")), "{text}");
    assert!(text.contains("encode") && text.ends_with(" with --method"), "{text}");
    let external = "fixtures/ops/constants_external/program.pte";
    let text = sentence(external, &none, &[]);
    assert!(text.starts_with(&format!("{external}: external data: no data has the key \"")), "{text}");
    assert!(text.ends_with("\"; pass the .ptd file that was exported with this program"), "{text}");
    let portable = "fixtures/ops/portable_dropout/program.pte";
    let text = sentence(portable, &none, &[]);
    assert!(text.starts_with(&format!("{portable}: operator aten::native_dropout.out is not supported")), "{text}");
    let text = sentence(ADD, &none, &["--adapter", "no such GPU"]);
    assert!(text.starts_with("no GPU adapter is called \"no such GPU\"; there are "), "{text}");
    let text = sentence("no/such.pte", &none, &[]);
    assert_eq!(text, "no/such.pte: there is no such file");
}

#[test]
fn outputs_that_have_no_place() {
    let scratch = Scratch::new("place");
    let ones = Array::floats(&[3, 5], &[1.0; 15]);
    let call = scratch.file("call.npz", &save(&[ones.clone(), ones]));
    let run = pteron(["exec", ADD, "--in", &call, "--out", &call, "-q"]);
    assert_eq!(run.code, Some(1));
    assert!(run.err.starts_with(&format!("error: {call}: it could not be written: ")), "{}", run.err);
}

#[test]
fn a_wrong_command_line() {
    for args in [
        &["exec"][..],
        &["exec", ADD],
        &["exec", ADD, "--in", "call.npz"],
        &["exec", ADD, "--in", "call.npz", "--out", "o", "--repeat", "0"],
        &["exec", "--in", "call.npz", "--out", "o", "--profile", ADD],
        &["devices", "--yaml"],
    ] {
        let run = pteron(args);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{args:?}");
        assert!(run.err.starts_with("error: "), "{args:?}: {}", run.err);
    }
    for command in ["exec", "devices"] {
        assert!(pteron([command, "--help"]).out.contains("Examples:"));
    }
}
