//! Pictures and sound are those that Pillow and torchaudio give.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::path::PathBuf;

use pteron::media::{Audio, Image, MediaLimits};

fn file(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/media/pictures");
    std::fs::read(folder.join(name)).unwrap()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// The largest difference of two pictures, and the mean.
fn distance(found: &[u8], expected: &[u8]) -> (u8, f64) {
    assert_eq!(found.len(), expected.len());
    let differences: Vec<u8> = found.iter().zip(expected).map(|(a, b)| a.abs_diff(*b)).collect();
    let mean = differences.iter().map(|&by| f64::from(by)).sum::<f64>() / differences.len() as f64;
    (differences.into_iter().max().unwrap_or(0), mean)
}

#[test]
fn scaled_pictures_are_those_of_pillow() {
    let picture = Image::decode(&file("picture.png"), &MediaLimits::default()).unwrap();
    assert_eq!((picture.width(), picture.height()), (61, 43));
    for (width, height) in [(30, 20), (13, 43), (61, 9), (100, 90), (7, 80), (1, 1), (61, 43)] {
        let scaled = picture.resize(width, height).unwrap();
        let (most, _) = distance(scaled.pixels(), &file(&format!("{width}x{height}.rgb")));
        assert_eq!(most, 0, "{width} × {height}");
    }
}

#[test]
fn grey_is_that_of_pillow() {
    use pteron::media::PixelFormat;
    use pteron::{ScalarType, TensorSpec};
    let input = TensorSpec { scalar_type: ScalarType::Byte, shape: vec![1, 1, 43, 61], dynamic: false };
    let format = PixelFormat::of_input(&input, None).unwrap();
    let [picture, grey] =
        ["picture.png", "grey.png"].map(|name| Image::decode(&file(name), &MediaLimits::default()).unwrap());
    let expected: Vec<u8> = grey.pixels().iter().copied().step_by(3).collect();
    assert_eq!(picture.to_tensor(&format).unwrap().bytes(), expected);
}

/// Decoders may round differently: JPEG permits it.
#[test]
fn photographs_are_close_to_those_of_pillow() {
    for name in ["baseline", "progressive"] {
        let photograph = Image::decode(&file(&format!("{name}.jpg")), &MediaLimits::default()).unwrap();
        let (most, mean) = distance(photograph.pixels(), &file(&format!("{name}.rgb")));
        assert!(most <= 6 && mean <= 1.0, "{name}: {most} levels at most, {mean:.2} in the mean");
    }
}

#[test]
fn resampled_sound_is_that_of_torchaudio() {
    let samples = floats(&file("samples.bin"));
    for (from, to) in [(44_100, 16_000), (8_000, 16_000), (22_050, 24_000)] {
        let sound = Audio::new(from, samples.clone()).unwrap().resample(to, &MediaLimits::default()).unwrap();
        let expected = floats(&file(&format!("{from}to{to}.bin")));
        assert_eq!(sound.samples().len(), expected.len(), "{from} to {to}");
        let far = sound.samples().iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-5, "{from} to {to}: {far}");
    }
}
