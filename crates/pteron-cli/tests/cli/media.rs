//! Pictures and sound through the command.

use super::arrays::{Array, load, save};
use super::{Run, Scratch, pteron, read};

const CLASSES: &str = "fixtures/ops/net_mobilenet_v3/program.pte";
const LARGER: &str = "fixtures/ops/net_edsr/program.pte";
const VOCODER: &str = "fixtures/ops/net_vocoder/program.pte";
const PITCH: &str = "models/crepe_tiny/program.pte";
const FACES: &str = "models/mtcnn/program.pte";
const PICTURE: &str = "fixtures/media/pictures/picture.png";
const PHOTOGRAPH: &str = "models/mtcnn/astronaut.jpg";
const SOUND: &str = "models/crepe_tiny/melody.wav";

/// Four pixels of one grey, 102.
const GREY: &[u8] = b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x02\x00\x00\x00\x02\x08\x02\x00\x00\x00\xfd\xd4\x9a\x73\x00\x00\x00\x0e\x49\x44\x41\x54\x78\x9c\x63\x48\x03\x03\x06\x08\x05\x00\x21\x86\x04\xc9\xe7\x9b\x93\x3a\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

fn exec(args: &[&str]) -> Run {
    pteron(["exec", "--quiet"].iter().chain(args))
}

/// The sentence of a call that fails.
fn sentence(args: &[&str]) -> String {
    let run = exec(args);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "one sentence: {}", run.err);
    run.err.trim_end().strip_prefix("error: ").unwrap().to_owned()
}

#[test]
fn a_picture_gets_names() {
    let scratch = Scratch::new("labels");
    let labels = scratch.file("labels.txt", b"ant\nbee\ncat\ndog\neel\nfox\ngnu\nhen\nibis\njay\n");
    let top = ["--size", "16x32", "--mean", "0.5", "--std", "0.25,0.25,0.5", "--top", "3", "--labels", &labels];
    let run = exec(&[&[CLASSES, "--image", PICTURE, "--image", PHOTOGRAPH][..], &top].concat());
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{}", run.out);
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!((lines.len(), lines[0].trim(), lines[4].trim()), (8, "picture.png", "astronaut.jpg"), "{}", run.out);
    for line in [&lines[1..4], &lines[5..]].concat() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let class: usize = words[0].parse().unwrap();
        assert_eq!(
            words[2..],
            ["%", ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"][class]],
            "{line}"
        );
    }
    let few = scratch.file("few.txt", b"yes\nno\n");
    let text = sentence(&[CLASSES, "--image", PICTURE, "--size", "16", "--top", "1", "--labels", &few]);
    assert!(text.ends_with("few.txt: it has 2 labels, but the output has 10 classes"), "{text}");
}

#[test]
fn pictures_go_in_and_out() {
    let scratch = Scratch::new("picture");
    let out = |name: &str| scratch.0.join(name).to_string_lossy().into_owned();
    let large = out("large.png");
    let run = exec(&[LARGER, "--image", PICTURE, "--size", "9x13", "--out", &out("a"), "--out-image", &large]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    assert_eq!(load(&format!("{}/0.npz", out("a")))[0].shape, [1, 3, 18, 26]);
    let run = exec(&[LARGER, "--image", &large, "--size", "16", "--out", &out("b")]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "what was written can be read");
}

/// Grey levels that are the same everywhere stay so at any size, and normalisation is that of the options.
#[test]
fn pixels_are_normalised() {
    let scratch = Scratch::new("pixels");
    let out = |name: &str| scratch.0.join(name).to_string_lossy().into_owned();
    let values = Array::floats(&[1, 3, 4, 6], &[(102.0 / 255.0 - 0.5) / 0.25; 72]);
    let call = scratch.file("call.npz", &save(&[values]));
    let grey = scratch.file("grey.png", GREY);
    assert_eq!(exec(&[LARGER, "--in", &call, "--out", &out("a")]).code, Some(0));
    let options = ["--size", "4x6", "--mean", "0.5", "--std", "0.25"];
    let run = exec(&[&[LARGER, "--image", &grey, "--out", &out("b")][..], &options].concat());
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let [a, b] = ["a", "b"].map(|name| load(&format!("{}/0.npz", out(name))));
    for (a, b) in a[0].values().into_iter().zip(b[0].values()) {
        assert!((a - b).abs() < 1e-5, "{a} is not {b}");
    }
}

#[test]
fn sound_goes_in_and_out() {
    let scratch = Scratch::new("sound");
    let out = scratch.0.join("out").to_string_lossy().into_owned();
    // Two seconds are more than a call takes; a lower rate makes them shorter.
    let text = sentence(&[PITCH, "--audio", SOUND, "--rate", "16000", "--out", &out]);
    assert_eq!(text, format!("{SOUND}: it cannot be arr_0: the number of samples is 30400, allowed is up to 21344"));
    let mel = scratch.file("mel.npz", &save(&[Array::floats(&[1, 10, 9], &[0.25; 90])]));
    let wav = format!("{out}/speech.wav");
    std::fs::create_dir_all(&out).unwrap();
    let run = exec(&[VOCODER, "--in", &mel, "--out-audio", &wav, "--rate", "22050"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let file = std::fs::read(&wav).unwrap();
    assert_eq!((&file[..4], &file[24..28], file.len()), (&b"RIFF"[..], &22_050u32.to_le_bytes()[..], 44 + 2 * 36));
    // What the model needs of a sound that another wrote: 1,184 samples.
    let short = scratch.file("short.wav", &shortened(&read(SOUND), 1184));
    let run = exec(&[PITCH, "--audio", &short, "--rate", "16000", "--out", &out]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    assert_eq!(load(&format!("{out}/0.npz"))[0].shape, [2, 360]);
}

/// The first samples of a file of 16 bits.
fn shortened(wav: &[u8], samples: u32) -> Vec<u8> {
    let bytes = samples * 2;
    let mut short = wav[..44 + bytes as usize].to_vec();
    short[40..44].copy_from_slice(&bytes.to_le_bytes());
    short
}

#[test]
fn files_that_are_something_else() {
    let scratch = Scratch::new("media-refused");
    let out = scratch.0.join("out").to_string_lossy().into_owned();
    let gif = scratch.file("a.png", b"GIF89a\x01\0\x01\0");
    assert_eq!(
        sentence(&[CLASSES, "--image", &gif, "--out", &out]),
        format!("{gif}: it is not a PNG or JPEG picture: it begins with the signature of a GIF picture")
    );
    let text = sentence(&[CLASSES, "--image", SOUND, "--out", &out]);
    assert!(text.ends_with("it begins with the signature of a WAV sound"), "{text}");
    let text = sentence(&[PITCH, "--audio", PICTURE, "--out", &out]);
    assert!(text.ends_with("it is not a WAV sound: it begins with the signature of a PNG picture"), "{text}");
    // A header that claims two billion pixels a side.
    let mut bomb = read(PICTURE);
    bomb[16..24].copy_from_slice(&[0x7F, 0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF]);
    let bomb = scratch.file("bomb.png", &bomb);
    let text = sentence(&[CLASSES, "--image", &bomb, "--out", &out]);
    assert!(text.starts_with(&bomb) && (text.contains("CRC") || text.contains("pixels")), "{text}");
    let text = sentence(&[CLASSES, "--image", "no/such.png", "--out", &out]);
    assert_eq!(text, "no/such.png: there is no such file");
}

#[test]
fn inputs_that_are_something_else() {
    let scratch = Scratch::new("media-inputs");
    let out = scratch.0.join("out").to_string_lossy().into_owned();
    let text = sentence(&[PITCH, "--image", PICTURE, "--out", &out]);
    assert!(
        text.starts_with(&format!("{PICTURE}: it cannot be arr_0: a tensor of float32 [1, 21344] is no picture")),
        "{text}"
    );
    let text = sentence(&[FACES, "--method", "rnet", "--audio", SOUND, "--out", &out]);
    assert!(text.contains("a tensor of float32 [1, 3, 24, 24] is no sound"), "{text}");
    let text = sentence(&[CLASSES, "--image", PICTURE, "--input", "2", "--out", &out]);
    assert!(text.contains("there is no input 2 for the picture or sound; \"forward\" takes arr_0"), "{text}");
    let text = sentence(&["fixtures/ops/add_same/program.pte", "--image", PICTURE, "--out", &out]);
    assert!(text.contains("the picture or sound is one input of 2"), "{text}");
    let text = sentence(&[CLASSES, "--image", PICTURE, "--size", "64", "--out", &out]);
    assert!(text.contains("has shape [1, 3, 64, 64], allowed is up to [1, 3, 32, 32]"), "{text}");
    let text = sentence(&[CLASSES, "--image", PICTURE, "--size", "16", "--mean", "1,2", "--out", &out]);
    assert!(text.ends_with("the mean is 2 numbers, allowed is 1 number, or 3"), "{text}");
    let text = sentence(&[CLASSES, "--image", PICTURE, "--size", "16", "--out-image", &format!("{out}.png")]);
    assert!(text.ends_with("no output is a picture; they are float32 [1, 10]"), "{text}");
}

/// A model of fixed size gets pictures of that size, cut out or scaled.
#[test]
fn fixed_sizes_need_no_option() {
    let scratch = Scratch::new("media-fixed");
    let out = scratch.0.join("out").to_string_lossy().into_owned();
    let face = ["--mean", "0.5", "--std", "0.501961"];
    for crop in [&[][..], &["--crop"], &["--crop", "--resize", "40"]] {
        let run = exec(&[&[FACES, "--method", "onet", "--image", PHOTOGRAPH, "--out", &out][..], &face, crop].concat());
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{crop:?}");
        let outputs = load(&format!("{out}/0.npz"));
        assert_eq!(outputs.iter().map(|output| output.shape.clone()).collect::<Vec<_>>(), [[1, 4], [1, 2], [1, 10]]);
    }
}
