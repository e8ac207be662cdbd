//! The rules of PNG, on pictures made chunk by chunk.

use super::SIGNATURE;
use super::strip::strip;
use crate::{Format, Picture, Unacceptable, inspect};

/// Colour type and bit depth.
const GREY_8: (u8, u8) = (0, 8);
const INDEXED_8: (u8, u8) = (3, 8);

fn chunk(kind: &str, data: &[u8]) -> Vec<u8> {
    let body = [kind.as_bytes(), data].concat();
    let length = u32::try_from(data.len()).unwrap();
    [&length.to_be_bytes()[..], &body, &crc32fast::hash(&body).to_be_bytes()].concat()
}

fn header(width: u32, height: u32, (kind, depth): (u8, u8), interlace: u8) -> Vec<u8> {
    let sizes = [width.to_be_bytes(), height.to_be_bytes()].concat();
    chunk("IHDR", &[&sizes[..], &[depth, kind, 0, 0, interlace]].concat())
}

fn data(rows: &[u8]) -> Vec<u8> {
    chunk("IDAT", &fdeflate::compress_to_vec(rows))
}

fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
    [&SIGNATURE[..], &chunks.concat(), &chunk("IEND", b"")].concat()
}

/// A picture of 2x2 grey pixels with further chunks before and after its image data.
fn grey(before: &[Vec<u8>], after: &[Vec<u8>]) -> Vec<u8> {
    file(&[header(2, 2, GREY_8, 0), before.concat(), data(&[0; 6]), after.concat()])
}

fn is_corrupt(bytes: &[u8], words: &str) -> bool {
    matches!(inspect(bytes), Err(Unacceptable::Corrupt { detail, .. }) if detail.contains(words))
}

fn is_truncated(bytes: &[u8], words: &str) -> bool {
    matches!(inspect(bytes), Err(Unacceptable::Truncated { detail, .. }) if detail.contains(words))
}

#[test]
fn the_limits_are_judged_from_the_header_alone() {
    let verdict = |width, height| inspect(&file(&[header(width, height, GREY_8, 0)])).unwrap_err();
    assert_eq!(verdict(0, 5), Unacceptable::NoPixels { width: 0, height: 5 });
    assert_eq!(verdict(0, 0), Unacceptable::NoPixels { width: 0, height: 0 });
    assert_eq!(verdict(640, 480), Unacceptable::NotSquare { width: 640, height: 480 });
    assert_eq!(verdict(480, 640), Unacceptable::NotSquare { width: 480, height: 640 });
    assert_eq!(verdict(7072, 7072), Unacceptable::TooManyPixels { side: 7072 });
    assert_eq!(verdict(u32::MAX, u32::MAX), Unacceptable::TooManyPixels { side: u32::MAX });
    assert!(is_truncated(&file(&[header(7071, 7071, GREY_8, 0)]), "no image data"));
}

#[test]
fn every_colour_type_and_depth_needs_its_exact_amount_of_data() {
    // Colour type, depth, bytes of a row of 5 pixels without its filter type.
    let kinds = [
        (0, 1, 1),
        (0, 2, 2),
        (0, 4, 3),
        (0, 8, 5),
        (0, 16, 10),
        (2, 8, 15),
        (2, 16, 30),
        (3, 1, 1),
        (3, 2, 2),
        (3, 4, 3),
        (3, 8, 5),
        (4, 8, 10),
        (4, 16, 20),
        (6, 8, 20),
        (6, 16, 40),
    ];
    for (kind, depth, row) in kinds {
        let of = |bytes: usize| {
            file(&[header(5, 5, (kind, depth), 0), chunk("PLTE", &[0; 6]), data(&vec![0; bytes])])
        };
        let exact = of(5 * (1 + row));
        assert_eq!(inspect(&exact).map(|picture| picture.length), Ok(exact.len()), "{kind}, {depth}");
        let words = format!("after {} of {} bytes", 5 * (1 + row) - 1, 5 * (1 + row));
        assert!(is_truncated(&of(5 * (1 + row) - 1), &words), "{kind}, {depth}");
        assert!(inspect(&of(5 * (1 + row) + 1)).is_ok(), "data past the last row is tolerated");
    }
    for (kind, depth) in [(0, 3), (1, 8), (2, 4), (3, 16), (4, 4), (5, 8), (6, 2), (7, 8), (0, 0), (0, 32)] {
        assert!(is_corrupt(&file(&[header(5, 5, (kind, depth), 0)]), "there is no PNG of colour type"));
    }
}

/// The byte counts were added up by hand. For 8x8 the passes have 1, 1, 1, 2, 2, 4 and 4 rows of 1, 1, 2, 2, 4, 4 and 8
/// pixels. For 1x1 only the first has any.
#[test]
fn an_interlaced_picture_needs_the_rows_of_its_passes() {
    for (side, bytes) in [(8, 79), (1, 2)] {
        let of = |bytes: usize| file(&[header(side, side, GREY_8, 1), data(&vec![0; bytes])]);
        assert!(inspect(&of(bytes)).is_ok());
        assert!(is_truncated(&of(bytes - 1), &format!("after {} of {bytes} bytes", bytes - 1)));
    }
    assert!(is_corrupt(&file(&[header(8, 8, GREY_8, 2), data(&[0; 79])]), "interlace 2"));
}

/// For 5x5 the passes have rows of 1, 1, 2, 1, 1, 3, 2, 2, 2, 5 and 5 pixels, in this order.
#[test]
fn the_rows_of_an_interlaced_picture_begin_where_its_passes_say() {
    let starts = [0, 2, 4, 7, 9, 11, 15, 18, 21, 24, 30];
    for place in 0..36 {
        let mut rows = vec![0; 36];
        rows[place] = 5;
        let bytes = file(&[header(5, 5, GREY_8, 1), data(&rows)]);
        match starts.iter().position(|&start| start == place) {
            Some(row) => assert!(is_corrupt(&bytes, &format!("row {} of 11 ", row + 1)), "{place}"),
            None => assert!(inspect(&bytes).is_ok(), "{place}"),
        }
    }
}

#[test]
fn a_row_names_one_of_five_filter_types() {
    for filter in 0..=255 {
        let bytes = file(&[header(2, 2, GREY_8, 0), data(&[0, 9, 9, filter, 9, 9])]);
        assert_eq!(inspect(&bytes).is_ok(), filter <= 4, "{filter}");
    }
}

#[test]
fn a_wrong_checksum_of_a_critical_chunk_is_corrupt() {
    let good =
        file(&[header(2, 2, INDEXED_8, 0), chunk("PLTE", &[0; 6]), chunk("tEXt", b"a\0b"), data(&[0; 6])]);
    assert!(inspect(&good).is_ok());
    for name in ["IHDR", "PLTE", "tEXt", "IDAT", "IEND"] {
        let place = good.windows(4).position(|window| window == name.as_bytes()).unwrap();
        let length = u32::from_be_bytes(*good[place - 4..].first_chunk().unwrap()) as usize;
        let mut bad = good.clone();
        bad[place + 4 + length] ^= 1;
        let refused = is_corrupt(&bad, &format!("the checksum of its chunk {name}"));
        assert_eq!(refused, name != "tEXt", "{name}");
        assert_eq!(inspect(&bad).is_ok(), name == "tEXt", "{name}");
    }
}

#[test]
fn the_image_data_must_inflate_and_match_its_own_checksum() {
    let stream = fdeflate::compress_to_vec(&[0; 6]);
    let of = |stream: &[u8]| file(&[header(2, 2, GREY_8, 0), chunk("IDAT", stream)]);
    assert!(inspect(&of(&stream)).is_ok());
    let (last, rest) = stream.split_last().unwrap();
    assert!(is_corrupt(&of(&[rest, &[last ^ 1]].concat()), "the checksum of its image data"));
    assert!(is_truncated(&of(rest), "the end of its image data"));
    assert!(is_truncated(&of(b""), "after 0 of 6 bytes"));
    assert!(is_corrupt(&of(&[0x78, 0x9d, 1, 2, 3]), "cannot be inflated"));
    assert!(inspect(&of(&[&stream[..], b"more"].concat())).is_ok(), "bytes after the stream are tolerated");
    let pieces: Vec<_> = stream.iter().map(|&byte| chunk("IDAT", &[byte])).collect();
    assert!(inspect(&file(&[header(2, 2, GREY_8, 0), pieces.concat()])).is_ok(), "a byte in each chunk");
}

#[test]
fn palette_colours_need_a_palette_before_the_image_data() {
    let of = |before: &[Vec<u8>]| file(&[header(2, 2, INDEXED_8, 0), before.concat(), data(&[0; 6])]);
    let palette = |bytes| chunk("PLTE", &vec![0; bytes]);
    assert!(inspect(&of(&[palette(3)])).is_ok());
    assert!(inspect(&of(&[palette(768)])).is_ok());
    assert!(is_corrupt(&of(&[]), "no palette"));
    for bytes in [0, 4, 771] {
        assert!(is_corrupt(&of(&[palette(bytes)]), "3 to 768"), "{bytes}");
    }
    assert!(is_corrupt(&of(&[palette(3), palette(3)]), "second palette"));
    let late = file(&[header(2, 2, INDEXED_8, 0), data(&[0; 6]), palette(3)]);
    assert!(is_corrupt(&late, "no palette"));
    assert!(is_corrupt(&grey(&[], &[palette(3)]), "after the image data"));
    assert!(inspect(&grey(&[palette(3)], &[])).is_ok(), "meaningless in greyscale, and harmless");
}

/// A palette of two colours has at most two values of transparency.
#[test]
fn transparency_of_more_colours_than_the_palette_has_is_dropped() {
    let is_kept = |length: usize| {
        let transparency = chunk("tRNS", &vec![7; length]);
        let palette = chunk("PLTE", &[0; 6]);
        let bytes = file(&[header(2, 2, INDEXED_8, 0), palette, transparency, data(&[0; 6])]);
        strip(&bytes).is_ok_and(|stripped| stripped.contents == bytes)
    };
    assert_eq!([0, 1, 2, 3, 256].map(is_kept), [false, true, true, false, false]);
}

#[test]
fn chunks_come_in_their_order() {
    assert!(is_corrupt(
        &file(&[chunk("tEXt", b"a\0b"), header(2, 2, GREY_8, 0)]),
        "begins with the chunk tEXt"
    ));
    assert!(is_corrupt(&grey(&[header(2, 2, GREY_8, 0)], &[]), "second IHDR"));
    assert!(is_corrupt(&grey(&[chunk("CgBI", b"")], &[]), "critical chunk CgBI"));
    assert!(is_corrupt(&grey(&[], &[chunk("tIME", b""), data(b"")]), "interrupted"));
    assert!(is_corrupt(&grey(&[chunk("a1cd", b"")], &[]), "no chunk begins at byte 33"));
    let short = [&SIGNATURE[..], &chunk("IHDR", &[0; 12])].concat();
    assert!(is_corrupt(&short, "12 bytes long"));
}

/// Nothing is read of a chunk that is not needed for the picture, be it damaged or a bomb.
#[test]
fn other_chunks_are_stepped_over_unread() {
    let bomb = fdeflate::compress_to_vec(&vec![0; 1 << 20]);
    let others = [chunk("iCCP", &[&b"x\0\0"[..], &bomb].concat()), chunk("gAMA", b"?"), chunk("zTXt", b"")];
    assert!(inspect(&grey(&others, &others)).is_ok());
}

#[test]
fn an_animation_counts_as_its_default_image() {
    let frame = [chunk("fcTL", &[0; 26]), chunk("fdAT", b"\0\0\0\x01not a frame")].concat();
    let bytes = grey(&[chunk("acTL", &[0xff; 8])], &vec![frame; 5_000]);
    assert_eq!(inspect(&bytes), Ok(Picture { format: Format::Png, side: 2, length: bytes.len() }));
}

/// 64 MB of zeros where a 2x2 picture needs six bytes; a decoder that went on would notice that
/// the stream has no end.
#[test]
fn what_follows_the_last_row_is_not_inflated() {
    let mut stream = fdeflate::compress_to_vec(&vec![0; 64 << 20]);
    stream.truncate(stream.len() - 20);
    assert!(inspect(&file(&[header(2, 2, GREY_8, 0), chunk("IDAT", &stream)])).is_ok());
}

#[test]
fn rows_longer_than_the_buffer_are_counted_right() {
    for side in [1_u32, 333, 1_000] {
        let row = 1 + side as usize * 8;
        let bytes = row * side as usize;
        let of = |bytes: usize| file(&[header(side, side, (6, 16), 0), data(&vec![0; bytes])]);
        assert!(inspect(&of(bytes)).is_ok(), "{side}");
        let words = format!("after {} of {bytes} bytes", bytes - 1);
        assert!(is_truncated(&of(bytes - 1), &words), "{side}");
    }
}

/// The crate png stops after the last row, wherever the chunks of image data divide the stream.
#[test]
fn the_end_of_the_stream_is_read_interlaced_or_not() {
    // Interlaced, 2x2 pixels take three rows: of 1, 1 and 2 pixels.
    for (interlace, rows) in [(0, &[0; 6][..]), (1, &[0; 7])] {
        let stream = fdeflate::compress_to_vec(rows);
        let (last, cut) = stream.split_last().unwrap();
        let wrong = [cut, &[last ^ 1]].concat();
        for size in [1, 2, 5, 100] {
            let of = |stream: &[u8]| {
                let pieces: Vec<_> = stream.chunks(size).map(|piece| chunk("IDAT", piece)).collect();
                file(&[header(2, 2, GREY_8, interlace), pieces.concat()])
            };
            assert!(inspect(&of(&stream)).is_ok(), "{interlace}, {size}");
            assert!(is_corrupt(&of(&wrong), "the checksum of its image data"), "{interlace}, {size}");
            assert!(is_truncated(&of(cut), "the end of its image data"), "{interlace}, {size}");
        }
    }
}

/// A block of deflate that is not compressed claims 60 bytes. The rows take 6, and after 8 the stream ends.
#[test]
fn a_stream_may_end_anywhere_behind_the_last_row() {
    for extra in [1, 2, 3, 4, 30] {
        let stream = [&[0x78, 0x01, 0, 60, 0, !60, 0xff][..], &vec![0; 6 + extra]].concat();
        assert!(inspect(&file(&[header(2, 2, GREY_8, 0), chunk("IDAT", &stream)])).is_ok(), "{extra}");
    }
}

/// The crate png refuses each of these chunks.
#[test]
fn optional_chunks_that_decoders_refuse_do_no_harm() {
    let early = [chunk("bKGD", &[0]), chunk("PLTE", &[0; 6]), chunk("fcTL", &[0; 5]), chunk("fdAT", &[0; 2])];
    let late = [chunk("fdAT", &[9; 9]), chunk("fcTL", &[9; 26]), chunk("tRNS", &[0; 999])];
    let bytes = file(&[header(2, 2, INDEXED_8, 0), early.concat(), data(&[0; 6]), late.concat()]);
    assert_eq!(inspect(&bytes).map(|picture| picture.length), Ok(bytes.len()));
}
