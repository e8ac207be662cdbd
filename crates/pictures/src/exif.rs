//! The orientation in EXIF: the only part of EXIF that is needed to show a picture.

/// How to turn the rows and columns of a picture to show it: EXIF's numbers 1 to 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Orientation(u8);

/// Bytes of [`Orientation::to_tiff`], and the fewest that hold an orientation at all.
const TIFF_BYTES: usize = 26;
const TAG: u16 = 0x0112;
/// The type of an unsigned 16-bit number.
const SHORT: u16 = 3;

impl Orientation {
    /// Not turned.
    pub(crate) const UPRIGHT: Self = Self(1);

    /// Reads the body of EXIF, which is a TIFF file. `None` if it has no orientation, or if it is
    /// damaged on the way to it.
    pub(crate) fn parse(tiff: &[u8]) -> Option<Self> {
        if tiff.len() < TIFF_BYTES {
            return None;
        }
        let (&head, _) = tiff.split_first_chunk::<4>()?;
        let number: fn([u8; 2]) -> u16 = match &head {
            b"II*\0" => u16::from_le_bytes,
            b"MM\0*" => u16::from_be_bytes,
            _ => return None,
        };
        let at = |place: usize| tiff.get(place..)?.first_chunk::<2>().copied().map(number);
        // The offset is a number of 32 bits. Its halves have the order of its bytes.
        let halves = if head[0] == b'M' { (at(4)?, at(6)?) } else { (at(6)?, at(4)?) };
        let directory = usize::from(halves.0) << 16 | usize::from(halves.1);
        let count = usize::from(at(directory)?);
        for entry in (0..count).map(|index| directory + 2 + 12 * index) {
            if at(entry)? == TAG {
                let count_is_one = at(entry + 4)? | at(entry + 6)? == 1;
                let value = u8::try_from(at(entry + 8)?).ok()?;
                let fits = at(entry + 2)? == SHORT && count_is_one && (1..=8).contains(&value);
                return fits.then_some(Self(value));
            }
        }
        None
    }

    /// The smallest TIFF file that holds the orientation and nothing else.
    pub(crate) const fn to_tiff(self) -> [u8; TIFF_BYTES] {
        let Self(value) = self;
        // Byte order and the directory's offset; one entry; no further directory.
        [b'M', b'M', 0, b'*', 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, value, 0, 0, 0, 0, 0, 0]
    }

    /// The stored place of the pixel that is shown at `x`, `y`. `last` is the number of the last row
    /// and column.
    pub(crate) const fn source(self, x: usize, y: usize, last: usize) -> (usize, usize) {
        match self.0 {
            2 => (last - x, y),
            3 => (last - x, last - y),
            4 => (x, last - y),
            5 => (y, x),
            6 => (y, last - x),
            7 => (last - y, last - x),
            8 => (last - y, x),
            _ => (x, y),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A little-endian TIFF file whose only directory has these entries: tag, type, count, value.
    fn little_endian(entries: &[(u16, u16, u32, u16)]) -> Vec<u8> {
        let mut tiff = b"II*\0\x08\0\0\0".to_vec();
        tiff.extend(u16::try_from(entries.len()).unwrap().to_le_bytes());
        for &(tag, kind, count, value) in entries {
            tiff.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
            tiff.extend(count.to_le_bytes());
            tiff.extend([value.to_le_bytes(), [0, 0]].concat());
        }
        tiff.extend([0; 4]);
        tiff
    }

    #[test]
    fn an_orientation_is_read_from_either_byte_order() {
        for value in 1..=8 {
            let own = Orientation(value);
            assert_eq!(Orientation::parse(&own.to_tiff()), Some(own));
            let camera =
                little_endian(&[(0x010f, 2, 20, 9), (TAG, SHORT, 1, value.into()), (0x0132, 2, 20, 9)]);
            assert_eq!(Orientation::parse(&camera), Some(own));
        }
    }

    #[test]
    fn a_damaged_one_is_none() {
        let whole = little_endian(&[(0x010f, 2, 20, 9), (TAG, SHORT, 1, 6)]);
        for length in 0..whole.len() - 8 {
            assert_eq!(Orientation::parse(&whole[..length]), None, "{length}");
        }
        for (kind, count, value) in
            [(SHORT, 1, 0), (SHORT, 1, 9), (SHORT, 1, 0x0601), (SHORT, 2, 6), (4, 1, 6)]
        {
            assert_eq!(Orientation::parse(&little_endian(&[(TAG, kind, count, value)])), None);
        }
        assert_eq!(Orientation::parse(&little_endian(&[(0x0113, SHORT, 1, 6), (0x010f, 2, 20, 9)])), None);
        for place in 0..8 {
            let mut bytes = whole.clone();
            bytes[place] ^= 0x80;
            assert_eq!(Orientation::parse(&bytes), None, "{place}");
        }
    }

    /// The first stored corner is shown where the standard says. For 6, a quarter turn clockwise, that
    /// is the top right.
    #[test]
    fn each_orientation_shows_the_first_corner_where_the_standard_says() {
        let shown_at = |value| {
            let places = [(0, 0), (1, 0), (0, 1), (1, 1)];
            places.into_iter().find(|&(x, y)| Orientation(value).source(x, y, 1) == (0, 0)).unwrap()
        };
        let (top_left, top_right, bottom_left, bottom_right) = ((0, 0), (1, 0), (0, 1), (1, 1));
        let expected =
            [top_left, top_right, bottom_right, bottom_left, top_left, top_right, bottom_right, bottom_left];
        assert_eq!([1, 2, 3, 4, 5, 6, 7, 8].map(shown_at), expected);
        // From 5 on, rows become columns.
        for value in 1..=8 {
            let (x0, y0) = Orientation(value).source(0, 0, 1);
            let (x1, y1) = Orientation(value).source(1, 0, 1);
            assert_eq!((x0 != x1, y0 != y1), (value < 5, value >= 5), "{value}");
        }
    }
}
