//! PNG and JPEG files.

use std::io::Cursor;

use png::{BitDepth, ColorType, Transformations};
use pteron_format::alloc;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::MediaLimits;
use super::error::MediaError;
use super::image::Image;

/// The longest side that a JPEG header can express.
const LONGEST_JPEG: usize = 65_535;

pub(super) fn decode(bytes: &[u8], limits: &MediaLimits) -> Result<Image, MediaError> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => decode_png(bytes, limits),
        [0xFF, 0xD8, 0xFF, ..] => decode_jpeg(bytes, limits),
        other => Err(MediaError::format("a PNG or JPEG picture", other)),
    }
}

/// Compares a picture's size with the limits, before anything is allocated for it.
fn check(width: u64, height: u64, limits: &MediaLimits) -> Result<(), MediaError> {
    match width.checked_mul(height) {
        Some(pixels) if pixels <= limits.pixels => Ok(()),
        _ => Err(MediaError::TooManyPixels { width, height, limit: limits.pixels }),
    }
}

fn decode_png(bytes: &[u8], limits: &MediaLimits) -> Result<Image, MediaError> {
    let damaged = |error: png::DecodingError| MediaError::Damaged { format: "PNG", reason: error.to_string() };
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    // Neither text nor colour profiles are read: both can be far larger than they look.
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let (width, height) = decoder.read_header_info().map_err(damaged)?.size();
    check(width.into(), height.into(), limits)?;
    let mut reader = decoder.read_info().map_err(damaged)?;
    let too_large = || MediaError::TooManyPixels { width: width.into(), height: height.into(), limit: limits.pixels };
    let mut pixels = alloc::zeroed(reader.output_buffer_size().ok_or_else(too_large)?)?;
    // Of an animation the first frame.
    let info = reader.next_frame(&mut pixels).map_err(damaged)?;
    pixels.truncate(info.buffer_size());
    let channels = match (info.color_type, info.bit_depth) {
        (ColorType::Grayscale, BitDepth::Eight) => 1,
        (ColorType::GrayscaleAlpha, BitDepth::Eight) => 2,
        (ColorType::Rgb, BitDepth::Eight) => 3,
        (ColorType::Rgba, BitDepth::Eight) => 4,
        (color, depth) => {
            return Err(MediaError::Damaged {
                format: "PNG",
                reason: format!("its pixels are {color:?} of {depth:?} bits"),
            });
        }
    };
    Image::new(info.width, info.height, to_rgb(pixels, channels)?)
}

/// Repeats grey, and drops transparency.
fn to_rgb(pixels: Vec<u8>, channels: usize) -> Result<Vec<u8>, MediaError> {
    if channels == 3 {
        return Ok(pixels);
    }
    let mut colours = alloc::vec((pixels.len() / channels).saturating_mul(3))?;
    for pixel in pixels.chunks_exact(channels) {
        colours.extend_from_slice(&if channels == 4 { [pixel[0], pixel[1], pixel[2]] } else { [pixel[0]; 3] });
    }
    Ok(colours)
}

fn decode_jpeg(bytes: &[u8], limits: &MediaLimits) -> Result<Image, MediaError> {
    let damaged = |error: zune_jpeg::errors::DecodeErrors| MediaError::Damaged { format: "JPEG", reason: error.to_string() };
    let options = DecoderOptions::default()
        .set_max_width(LONGEST_JPEG)
        .set_max_height(LONGEST_JPEG)
        // A truncated file is an error, not a picture that ends in grey.
        .set_strict_mode(true)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(damaged)?;
    let missing = || MediaError::Damaged { format: "JPEG", reason: "it has no size".to_owned() };
    let info = decoder.info().ok_or_else(missing)?;
    check(info.width.into(), info.height.into(), limits)?;
    let mut pixels = alloc::zeroed(decoder.output_buffer_size().ok_or_else(missing)?)?;
    decoder.decode_into(&mut pixels).map_err(damaged)?;
    Image::new(info.width.into(), info.height.into(), pixels)
}

pub(super) fn encode_png(image: &Image) -> Result<Vec<u8>, MediaError> {
    let failed = |error: png::EncodingError| MediaError::Damaged { format: "PNG", reason: error.to_string() };
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, image.width(), image.height());
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(image.pixels()).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(color: ColorType, depth: BitDepth, width: u32, height: u32, data: &[u8], palette: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, width, height);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if let Some(palette) = palette {
            encoder.set_palette(palette.to_vec());
        }
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(data).unwrap();
        writer.finish().unwrap();
        out
    }

    fn pixels(file: &[u8]) -> Vec<u8> {
        Image::decode(file, &MediaLimits::default()).unwrap().pixels().to_vec()
    }

    #[test]
    fn every_kind_of_png_becomes_rgb() {
        use BitDepth::{Eight, One, Sixteen};
        use ColorType::{Grayscale, GrayscaleAlpha, Indexed, Rgb, Rgba};
        assert_eq!(pixels(&encoded(Grayscale, Eight, 2, 1, &[7, 9], None)), [7, 7, 7, 9, 9, 9]);
        assert_eq!(pixels(&encoded(Grayscale, One, 2, 1, &[0b0100_0000], None)), [0, 0, 0, 255, 255, 255]);
        assert_eq!(pixels(&encoded(Grayscale, Sixteen, 1, 1, &[0x12, 0xFF], None)), [0x12; 3]);
        assert_eq!(pixels(&encoded(GrayscaleAlpha, Eight, 1, 1, &[7, 0], None)), [7, 7, 7]);
        assert_eq!(pixels(&encoded(Rgb, Eight, 1, 1, &[1, 2, 3], None)), [1, 2, 3]);
        assert_eq!(pixels(&encoded(Rgba, Eight, 1, 1, &[1, 2, 3, 4], None)), [1, 2, 3]);
        assert_eq!(pixels(&encoded(Indexed, Eight, 2, 1, &[1, 0], Some(&[9, 8, 7, 6, 5, 4]))), [6, 5, 4, 9, 8, 7]);
    }

    #[test]
    fn png_files_are_read_back() {
        let image = Image::new(3, 2, (0..18).collect()).unwrap();
        assert_eq!(Image::decode(&image.encode_png().unwrap(), &MediaLimits::default()).unwrap(), image);
    }

    #[test]
    fn sizes_are_compared_before_anything_is_decoded() {
        let mut file = encoded(ColorType::Rgb, BitDepth::Eight, 4, 4, &[0; 48], None);
        let limits = MediaLimits::default().with_pixels(15);
        let error = Image::decode(&file, &limits).unwrap_err().to_string();
        assert_eq!(error, "it has 4 × 4 pixels, more than the 15 that are allowed");
        // A header that claims 2^31 - 1 pixels a side, with its own checksum.
        file[16..24].copy_from_slice(&[0x7F, 0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF]);
        let error = Image::decode(&file, &MediaLimits::default()).unwrap_err().to_string();
        assert!(error.contains("CRC") || error.contains("2147483647 × 2147483647"), "{error}");
    }

    #[test]
    fn other_formats_are_named() {
        let decode = |bytes: &[u8]| Image::decode(bytes, &MediaLimits::default()).unwrap_err().to_string();
        let begins = "it is not a PNG or JPEG picture: it begins with";
        assert_eq!(decode(b"GIF89a"), format!("{begins} the signature of a GIF picture"));
        assert_eq!(decode(b"RIFF\0\0\0\0WAVEfmt "), format!("{begins} the signature of a WAV sound"));
        assert_eq!(decode(b""), format!("{begins} nothing: the file is empty"));
        assert_eq!(decode(b"\x01\x02"), format!("{begins} the bytes 01 02"));
    }

    #[test]
    fn damaged_files_are_errors() {
        let png = encoded(ColorType::Rgb, BitDepth::Eight, 8, 8, &[77; 192], None);
        let jpeg =
            std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/media/pictures/baseline.jpg")).unwrap();
        Image::decode(&jpeg, &MediaLimits::default()).unwrap();
        for file in [png.as_slice(), &jpeg] {
            for len in 0..file.len() - 4 {
                let decoded = Image::decode(&file[..len], &MediaLimits::default());
                // What ends inside the last chunk or marker may be whole.
                assert!(decoded.is_err() || len > file.len() * 3 / 4, "{len} of {} bytes", file.len());
            }
            for at in 0..file.len() {
                for value in [0, 0xFF, file[at] ^ 1, file[at] ^ 0x80] {
                    let mut broken = file.to_vec();
                    broken[at] = value;
                    let _ = Image::decode(&broken, &MediaLimits::default().with_pixels(1 << 16));
                }
            }
        }
    }
}
