//! Pictures and sound as inputs of calls.

use std::path::{Path, PathBuf};

use pteron::media::{Audio, Image, MediaError, MediaLimits, PixelFormat};
use pteron::{Method, Tensor, TensorSpec};

use super::args::{Exec, MediaArgs};
use super::{Call, inputs};
use crate::failure::{Failure, Reason};
use crate::files;
use crate::npz::Npz;

/// The largest file that is read as a picture or a sound.
const MOST_BYTES: u64 = 1 << 30;

/// A file's content.
pub(super) enum Media {
    Picture(Image),
    Sound(Audio),
}

/// Decodes all pictures or sounds of the command line, before a program is loaded.
pub(super) fn decode(args: &Exec) -> Result<Vec<(PathBuf, Media)>, Failure> {
    let limits = MediaLimits::default();
    let MediaArgs { image, audio, .. } = &args.media;
    let bytes = |path: &Path| files::read(path, MOST_BYTES);
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |error: MediaError| Failure::file(&path, error)
    };
    let picture =
        |path: &PathBuf| Ok((path.clone(), Media::Picture(Image::decode(&bytes(path)?, &limits).map_err(fail(path))?)));
    let sound = |path: &PathBuf| {
        let sound = Audio::decode_wav(&bytes(path)?, &limits).map_err(fail(path))?;
        let sound = match args.media.rate {
            Some(rate) => sound.resample(rate, &limits).map_err(fail(path))?,
            None => sound,
        };
        Ok((path.clone(), Media::Sound(sound)))
    };
    image.iter().map(picture).chain(audio.iter().map(sound)).collect()
}

/// Makes a call of each picture or sound. Other inputs come from the files of arrays: one for all calls, or one for each.
pub(super) fn calls(
    args: &Exec,
    decoded: Vec<(PathBuf, Media)>,
    files: &[Npz],
    method: &Method,
) -> Result<Vec<Call>, Failure> {
    let count = decoded.len();
    if let ([_, _, ..], Some(first)) = (files, args.inputs.first())
        && files.len() != count
    {
        return Err(Failure::file(first, Reason::Unpaired { files: files.len(), calls: count }));
    }
    let call = |(index, (path, media)): (usize, (PathBuf, Media))| {
        let file = if files.len() == 1 { files.first() } else { files.get(index) };
        let at = choose(&args.media, file, method).map_err(|reason| Failure::file(&path, reason))?;
        let spec = &method.inputs()[at];
        let tensor = tensor(&args.media, &media, spec)
            .map_err(|error| Failure::file(&path, Reason::MediaInput { name: inputs::name(at), error }))?;
        let rate = match &media {
            Media::Sound(sound) => Some(sound.rate()),
            Media::Picture(_) => None,
        };
        let inputs = match (file, args.inputs.get(if files.len() == 1 { 0 } else { index })) {
            (Some(file), Some(name)) => {
                inputs::read_with(file, method, Some((at, &tensor))).map_err(|reason| Failure::file(name, reason))?
            }
            _ => vec![tensor],
        };
        Ok(Call { path, inputs, rate })
    };
    decoded.into_iter().enumerate().map(call).collect()
}

/// Returns the input that the picture or sound is for.
fn choose(args: &MediaArgs, file: Option<&Npz>, method: &Method) -> Result<usize, Reason> {
    let count = method.inputs().len();
    let takes = || inputs::takes(method);
    let absent = |index: &usize| file.is_none_or(|file| file.names().all(|name| name != inputs::name(*index)));
    let at = match args.input {
        Some(index) => index,
        None => (0..count).find(absent).unwrap_or(0),
    };
    match at {
        index if index >= count => Err(Reason::NoInput { index, takes: takes() }),
        _ if file.is_none() && count > 1 => Err(Reason::OtherInputs { count, takes: takes() }),
        index => Ok(index),
    }
}

fn tensor(args: &MediaArgs, media: &Media, spec: &TensorSpec) -> Result<Tensor, MediaError> {
    let image = match media {
        Media::Sound(sound) => return sound.to_tensor(spec),
        Media::Picture(image) => image,
    };
    let mut format = PixelFormat::of_input(spec, args.layout())?;
    if !args.mean.is_empty() || !args.std.is_empty() {
        let or = |numbers: &[f32], default: f32| if numbers.is_empty() { vec![default] } else { numbers.to_vec() };
        format = format.with_normalisation(&or(&args.mean, 0.0), &or(&args.std, 1.0))?;
    }
    let own = (image.height(), image.width());
    let (height, width) = match (args.size, spec.dynamic) {
        (Some(size), _) => (size.height, size.width),
        (None, true) => own,
        (None, false) => format.size(&spec.shape).unwrap_or(own),
    };
    let scaled = match (args.crop, args.resize) {
        (true, Some(side)) => image.resize_shorter(side)?.crop_centre(width, height)?,
        (true, None) => image.resize_to_cover(width, height)?,
        (false, _) => image.resize(width, height)?,
    };
    scaled.to_tensor(&format)
}
