//! The rules that hold for both formats, on pictures that other programs made.

use proptest::prelude::*;

use crate::*;

/// Every picture here is good; its side in pixels and its format beside it.
pub(crate) const GOOD: [(&[u8], u32, Format); 10] = [
    (include_bytes!("../../../tests/pictures/baseline.jpg"), 16, Format::Jpeg),
    (include_bytes!("../../../tests/pictures/cmyk.jpg"), 16, Format::Jpeg),
    (include_bytes!("../../../tests/pictures/grey.jpg"), 16, Format::Jpeg),
    (include_bytes!("../../../tests/pictures/progressive.jpg"), 24, Format::Jpeg),
    (include_bytes!("../../../tests/pictures/progressive_restarts.jpg"), 40, Format::Jpeg),
    (include_bytes!("../../../tests/pictures/restarts_420.jpg"), 48, Format::Jpeg),
    (include_bytes!("../../../tests/pictures/separate_scans.jpg"), 40, Format::Jpeg),
    // Refers 9,624 bytes back all through 160,000 bytes of image data.
    (include_bytes!("../../../tests/pictures/far_references.png"), 400, Format::Png),
    (include_bytes!("../../../tests/pictures/palette.png"), 32, Format::Png),
    (include_bytes!("../../../tests/pictures/truecolour.png"), 16, Format::Png),
];

#[test]
fn a_whole_picture_is_accepted_with_its_side_and_length() {
    for (bytes, side, format) in GOOD {
        assert_eq!(inspect(bytes), Ok(Picture { format, side, length: bytes.len() }));
    }
}

#[test]
fn bytes_after_the_end_are_allowed_and_not_counted() {
    for (bytes, side, format) in GOOD {
        for tail in [&b"\0"[..], b"trailing", &[0xff, 0xd8, 0xff, 0xd9], bytes] {
            let longer = [bytes, tail].concat();
            assert_eq!(inspect(&longer), Ok(Picture { format, side, length: bytes.len() }));
        }
    }
}

#[test]
fn a_picture_cut_anywhere_is_truncated() {
    for (bytes, _, format) in GOOD {
        for length in 8..bytes.len() {
            let verdict = inspect(&bytes[..length]);
            assert!(
                matches!(&verdict, Err(Unacceptable::Truncated { format: of, .. }) if *of == format),
                "{format:?} cut at {length}: {verdict:?}"
            );
        }
    }
}

#[test]
fn the_length_limit_counts_every_byte_that_came() {
    for (bytes, _, _) in GOOD {
        let mut padded = bytes.to_vec();
        padded.resize(BYTES_MAX, 0);
        assert_eq!(inspect(&padded).map(|picture| picture.length), Ok(bytes.len()));
        padded.push(0);
        assert_eq!(inspect(&padded), Err(Unacceptable::TooLong { bytes: 10_485_761 }));
    }
}

#[test]
fn the_first_bytes_decide_the_format() {
    assert_eq!(inspect(b""), Err(Unacceptable::Empty));
    for other in [&b"RIFF....WAVE"[..], b"\x89PN", b"\xff\xd8", b"no picture", &[0]] {
        assert!(matches!(inspect(other), Err(Unacceptable::UnknownFormat { .. })), "{other:?}");
    }
    for (other, kind) in [(&b"GIF89a\x01\0\x01\0"[..], "a GIF"), (b"RIFF....WEBP", "a WebP"), (b"{}", "JSON")]
    {
        assert_eq!(inspect(other), Err(Unacceptable::OtherFormat { kind }));
    }
}

#[test]
fn reasons_say_what_came_and_what_is_expected() {
    let reason = |bytes: &[u8]| inspect(bytes).map_err(|error| error.to_string()).unwrap_err();
    assert_eq!(reason(b"GIF89a\x01\0\x01"), "it is a GIF; a PNG or JPEG is expected");
    assert_eq!(
        reason(b"no picture"),
        "the picture is neither a PNG nor a JPEG: its first bytes are 6e 6f 20 70 69 63 74 75 (the text \"no picture\")"
    );
    assert_eq!(
        Unacceptable::NotSquare { width: 640, height: 480 }.to_string(),
        "the picture is 640x480 pixels; width and height must be equal"
    );
    assert_eq!(
        Unacceptable::TooManyPixels { side: 7072 }.to_string(),
        "the picture is 7072x7072 pixels; at most 50000000 pixels in all are accepted"
    );
    assert_eq!(
        Unacceptable::TooLong { bytes: 10_485_761 }.to_string(),
        "the picture is 10485761 bytes long; at most 10485760 are accepted"
    );
    let arithmetic = include_bytes!("../../../tests/pictures/arithmetic.jpg");
    assert_eq!(
        reason(arithmetic),
        "the JPEG is arithmetic-coded, which is not accepted; save it as a baseline or progressive 8-bit JPEG"
    );
}

#[test]
fn a_format_is_read_back_from_its_text() {
    for format in [Format::Png, Format::Jpeg] {
        assert_eq!(Format::parse(format.as_str()), Some(format));
    }
    assert_eq!(Format::parse("PNG"), None);
    assert_eq!(Format::parse("jpg"), None);
    assert_eq!([Format::Png.media_type(), Format::Jpeg.media_type()], ["image/png", "image/jpeg"]);
}

/// For a folder of pictures from elsewhere, named by `MINITILL_PICTURES`: nothing panics or takes
/// long, and what is accepted can be stripped and reduced. Prints each verdict (`--nocapture`), to be
/// compared with other programs'. Without the variable it does nothing.
#[test]
fn a_folder_of_pictures_is_judged() {
    let Some(folder) = std::env::var_os("MINITILL_PICTURES") else { return };
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let started = std::time::Instant::now();
        let verdict = inspect(&bytes);
        match &verdict {
            Ok(picture) => println!("{}: {picture:?}", path.display()),
            Err(reason) => println!("{}: {reason}", path.display()),
        }
        if let Ok(picture) = verdict {
            let processed = process(&bytes, 256).unwrap();
            let stripped = processed.contents.clone();
            let again = Picture { length: stripped.len(), ..picture };
            let expected = Processed { picture: again, ..processed };
            assert_eq!(process(&stripped, 256), Ok(expected), "{}", path.display());
        }
        // Generous, because a debug build is some 20 times slower.
        assert!(started.elapsed().as_secs() < 60, "{}", path.display());
    }
}

/// A good picture with a few bytes changed, taken out or put in.
fn damaged_picture() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>(), 0..4_u8);
    (0..GOOD.len(), prop::collection::vec(change, 1..6)).prop_map(|(picture, changes)| {
        let mut bytes = GOOD[picture].0.to_vec();
        for (place, value, kind) in changes {
            let place = place.index(bytes.len());
            match kind {
                0 => bytes[place] = value,
                1 => bytes[place] ^= 1 << (value % 8),
                2 => bytes.insert(place, value),
                _ => drop(bytes.drain(place..(place + usize::from(value % 8)).min(bytes.len() - 1))),
            }
        }
        bytes
    })
}

/// Restores the checksums of a PNG, so that what is inside its chunks is read.
fn with_sums(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut position = 8;
    while let Some(length) = bytes.get(position..).and_then(<[u8]>::first_chunk::<4>) {
        let end = position + 8 + u32::from_be_bytes(*length) as usize;
        if end + 4 > bytes.len() {
            break;
        }
        let sum = crc32fast::hash(&bytes[position + 4..end]);
        bytes[end..end + 4].copy_from_slice(&sum.to_be_bytes());
        position = end + 4;
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn arbitrary_bytes_never_panic(
        start in prop::sample::select(vec![&png::SIGNATURE[..], &jpeg::FIRST_BYTES, b""]),
        rest in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        drop(inspect(&[start, &rest].concat()));
    }

    #[test]
    fn damaged_pictures_never_panic_and_lengths_are_never_past_the_end(bytes in damaged_picture()) {
        for bytes in [with_sums(bytes.clone()), bytes] {
            if let Ok(picture) = inspect(&bytes) {
                prop_assert!(picture.length <= bytes.len());
                prop_assert!(picture.side > 0);
                prop_assert_eq!(inspect(&bytes[..picture.length]), Ok(picture));
                let processed = process(&bytes, 8).unwrap();
                prop_assert_eq!(processed.picture, picture);
                prop_assert_eq!(reduce(&bytes, 8).unwrap(), processed.reduced.clone());
                let stripped = processed.contents.clone();
                let again = Picture { length: stripped.len(), ..picture };
                prop_assert_eq!(process(&stripped, 8), Ok(Processed { picture: again, ..processed }));
            }
        }
    }
}
