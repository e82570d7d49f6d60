//! A decoded picture.

use pteron_format::alloc;

use super::error::MediaError;
use super::{MediaLimits, decode, resize};

/// A picture: 8 bits each of red, green and blue.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    width: u32,
    height: u32,
    /// Rows from the top, three bytes per pixel.
    pixels: Vec<u8>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({} × {})", self.width, self.height)
    }
}

impl Image {
    /// Creates a picture from its pixels: rows from the top, three bytes per pixel.
    ///
    /// # Errors
    /// A side of 0, or a number of bytes other than the size needs.
    pub fn new(width: u32, height: u32, pixels: Vec<u8>) -> Result<Self, MediaError> {
        let need = bytes_of(width, height)?;
        if pixels.len() != need {
            let allowed = format!("{need}, for {width} × {height} pixels of 3 bytes");
            return Err(MediaError::argument("the number of bytes", pixels.len(), allowed));
        }
        Ok(Self { width, height, pixels })
    }

    /// Decodes a PNG or JPEG file. Grey pictures become grey colours, transparency is dropped, 16-bit channels keep their upper 8
    /// bits, and the orientation that a camera recorded is not applied: all as Pillow's `Image.open(…).convert("RGB")`.
    ///
    /// # Errors
    /// Another format, a damaged file, or one with more pixels than the limits allow.
    pub fn decode(bytes: &[u8], limits: &MediaLimits) -> Result<Self, MediaError> {
        decode::decode(bytes, limits)
    }

    /// Encodes the picture as PNG.
    ///
    /// # Errors
    /// Out of memory.
    pub fn encode_png(&self) -> Result<Vec<u8>, MediaError> {
        decode::encode_png(self)
    }

    /// The width in pixels.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The height in pixels.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The pixels: rows from the top, three bytes each.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Scales to a size by bilinear interpolation; where it shrinks, over all pixels that a new one covers (antialiasing). Gives the
    /// pixels of Pillow's `resize(…, BILINEAR)`, and so of torchvision's `Resize` on a picture.
    ///
    /// # Errors
    /// A side of 0, or out of memory.
    pub fn resize(&self, width: u32, height: u32) -> Result<Self, MediaError> {
        bytes_of(width, height)?;
        let across = resize::horizontally(&self.pixels, self.width, self.height, width)?;
        let pixels = resize::vertically(&across, width, self.height, height)?;
        Self::new(width, height, pixels)
    }

    /// Scales the shorter side to a length and keeps the proportions, as torchvision's `Resize(side)`.
    ///
    /// # Errors
    /// A side of 0, or out of memory.
    pub fn resize_shorter(&self, side: u32) -> Result<Self, MediaError> {
        let longer = |other: u32, shorter: u32| {
            let scaled = u64::from(side) * u64::from(other) / u64::from(shorter.max(1));
            u32::try_from(scaled).map_err(|_| MediaError::argument("the longer side", scaled, u32::MAX))
        };
        let (width, height) = (self.width, self.height);
        match width <= height {
            true => self.resize(side, longer(height, width)?),
            false => self.resize(longer(width, height)?, side),
        }
    }

    /// Scales until the picture covers a size, and cuts the rest off at both ends of the other side.
    ///
    /// # Errors
    /// A side of 0, or out of memory.
    pub fn resize_to_cover(&self, width: u32, height: u32) -> Result<Self, MediaError> {
        let [own_width, own_height, width_64, height_64] = [self.width, self.height, width, height].map(u64::from);
        // The side that must grow more, or shrink less, decides; the other one is rounded up, so that it covers, too.
        let (scaled_width, scaled_height) = match width_64 * own_height >= height_64 * own_width {
            true => (width_64, (width_64 * own_height).div_ceil(own_width.max(1))),
            false => ((height_64 * own_width).div_ceil(own_height.max(1)), height_64),
        };
        let side =
            |scaled: u64| u32::try_from(scaled).map_err(|_| MediaError::argument("the longer side", scaled, u32::MAX));
        self.resize(side(scaled_width)?, side(scaled_height)?)?.crop_centre(width, height)
    }

    /// Cuts out the centre, as torchvision's `CenterCrop`. Outside the picture it is black.
    ///
    /// # Errors
    /// A side of 0, or out of memory.
    pub fn crop_centre(&self, width: u32, height: u32) -> Result<Self, MediaError> {
        let start = |own: u32, wanted: u32| {
            let spare = i64::from(own) - i64::from(wanted);
            // Halves are rounded to the even number, as Python does.
            spare.div_euclid(2) + i64::from(spare.rem_euclid(4) == 3)
        };
        self.crop(start(self.width, width), start(self.height, height), width, height)
    }

    /// Cuts out a rectangle, which may begin or end outside the picture; there it is black.
    ///
    /// # Errors
    /// A side of 0, or out of memory.
    pub fn crop(&self, left: i64, top: i64, width: u32, height: u32) -> Result<Self, MediaError> {
        let mut pixels = alloc::zeroed(bytes_of(width, height)?)?;
        // The columns of the result that lie inside the picture.
        let first = left.saturating_neg().clamp(0, i64::from(width));
        let last = i64::from(self.width).saturating_sub(left).clamp(first, i64::from(width));
        let index = |at: i64| usize::try_from(at).unwrap_or(0) * 3;
        let row_bytes = self.width as usize * 3;
        for (row, line) in (0i64..).zip(pixels.chunks_exact_mut(width as usize * 3)) {
            let source = top.saturating_add(row);
            let inside = first < last && (0..i64::from(self.height)).contains(&source);
            if let (true, Ok(source)) = (inside, usize::try_from(source)) {
                let source = &self.pixels[source * row_bytes..][..row_bytes];
                let from = index(left.saturating_add(first));
                line[index(first)..index(last)].copy_from_slice(&source[from..from + index(last) - index(first)]);
            }
        }
        Self::new(width, height, pixels)
    }
}

/// The bytes of a picture.
pub(super) fn bytes_of(width: u32, height: u32) -> Result<usize, MediaError> {
    let size = || format!("{width} × {height}");
    if width == 0 || height == 0 {
        return Err(MediaError::argument("the size of a picture", size(), "1 × 1 or more"));
    }
    let bytes = (width as usize).checked_mul(height as usize).and_then(|pixels| pixels.checked_mul(3));
    bytes.ok_or_else(|| MediaError::argument("the size of a picture", size(), "what memory can hold"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture whose pixels tell where they are: red is the column, green the row.
    fn places(width: u8, height: u8) -> Image {
        let pixels = (0..height).flat_map(|row| (0..width).flat_map(move |column| [column, row, 200])).collect();
        Image::new(width.into(), height.into(), pixels).unwrap()
    }

    #[test]
    fn crops_beyond_the_edges_are_black() {
        let image = places(4, 3);
        assert_eq!(image.crop(1, 1, 2, 1).unwrap().pixels(), [1, 1, 200, 2, 1, 200]);
        assert_eq!(image.crop(3, 2, 2, 2).unwrap().pixels(), [3, 2, 200, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(image.crop(-1, -1, 2, 2).unwrap().pixels(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 200]);
        for (left, top) in [(9, 0), (0, 9), (-9, 0), (0, -9), (i64::MIN, i64::MAX)] {
            assert_eq!(image.crop(left, top, 2, 1).unwrap().pixels(), [0; 6], "{left} {top}");
        }
    }

    /// `(round((own - wanted) / 2.0))` in Python.
    #[test]
    fn centres_are_those_of_torchvision() {
        let first = |own: u8, wanted: u32| places(own, 1).crop_centre(wanted, 1).unwrap().pixels()[0];
        assert_eq!([first(7, 4), first(9, 4), first(8, 4), first(5, 4), first(6, 1)], [2, 2, 2, 0, 2]);
        let wide = places(2, 1).crop_centre(4, 1).unwrap();
        assert_eq!(wide.pixels(), [0, 0, 0, 0, 0, 200, 1, 0, 200, 0, 0, 0]);
    }

    #[test]
    fn sizes_keep_proportions_or_cover() {
        let size = |image: Image| (image.width(), image.height());
        assert_eq!(size(places(40, 30).resize_shorter(15).unwrap()), (20, 15));
        assert_eq!(size(places(30, 41).resize_shorter(7).unwrap()), (7, 9));
        assert_eq!(size(places(40, 30).resize_to_cover(16, 16).unwrap()), (16, 16));
        assert_eq!(size(places(3, 200).resize_to_cover(50, 7).unwrap()), (50, 7));
        assert!(places(4, 4).resize(0, 3).unwrap_err().to_string().contains("0 × 3"));
    }

    #[test]
    fn bytes_must_fit_the_size() {
        let error = Image::new(2, 2, vec![0; 11]).unwrap_err().to_string();
        assert_eq!(error, "the number of bytes is 11, allowed is 12, for 2 × 2 pixels of 3 bytes");
    }
}
