//! Small pictures, compared with averages of the pixels that were put in.

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use super::*;
use crate::{process, reduce};

/// The verdict reads more of some pictures, and must show the same.
fn reduced(bytes: &[u8], side_max: u32) -> Reduced {
    let reduced = reduce(bytes, side_max).unwrap();
    assert_eq!(process(bytes, side_max).unwrap().reduced, reduced);
    reduced
}

fn chunk(kind: &[u8], data: &[u8]) -> Vec<u8> {
    let body = [kind, data].concat();
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    [&length[..], &body, &crc32fast::hash(&body).to_be_bytes()].concat()
}

/// A PNG of this colour type and bit depth, with these chunks before rows that bring their filters.
fn png(side: u32, (kind, depth): (u8, u8), interlace: u8, chunks: &[u8], rows: &[u8]) -> Vec<u8> {
    let header = [&side.to_be_bytes()[..], &side.to_be_bytes(), &[depth, kind, 0, 0, interlace]].concat();
    let data = chunk(b"IDAT", &fdeflate::compress_to_vec(rows));
    [b"\x89PNG\r\n\x1a\n", &chunk(b"IHDR", &header)[..], chunks, &data, &chunk(b"IEND", b"")].concat()
}

/// The side of the pictures below: 8x8 blocks do not fit into it, and passes of all lengths come.
const SIDE: u32 = 83;

/// Pixels of a soft pattern, which is what a JPEG is made for.
fn pattern(side: u32) -> Vec<[u8; 4]> {
    let wave = |phase: f64| to_byte(127.5 + 100.0 * f64::sin(phase));
    let pixels = (0..side * side).map(|place| {
        let (x, y) = (f64::from(place % side), f64::from(place / side));
        [wave(x / 9.0), wave(y / 13.0), wave((x + y) / 17.0), 255]
    });
    pixels.collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the waves stay in a byte's range"
)]
fn to_byte(value: f64) -> u8 {
    value.round() as u8
}

/// The average over each box, worked out the plain way: for each box, how much of each pixel lies in
/// it.
fn averages(pixels: &[[u8; 4]], side: u32, small: u32) -> Vec<[f64; 4]> {
    let length = f64::from(side) / f64::from(small);
    let overlaps = |index: u32| {
        let (start, end) = (length * f64::from(index), length * f64::from(index + 1));
        let overlap = |pixel: u32| end.min(f64::from(pixel + 1)) - start.max(f64::from(pixel));
        let overlaps = (0..side).map(|pixel| (pixel, overlap(pixel)));
        overlaps.filter(|&(_, overlap)| overlap > 0.0).collect::<Vec<_>>()
    };
    let overlaps: Vec<_> = (0..small).map(overlaps).collect();
    let boxes = (0..small * small).map(|place| {
        let mut sums = [0.0; 4];
        for (y, down) in &overlaps[(place / small) as usize] {
            for (x, across) in &overlaps[(place % small) as usize] {
                let [red, green, blue, alpha] = pixels[(y * side + x) as usize].map(f64::from);
                for (sum, value) in sums.iter_mut().zip([red * alpha, green * alpha, blue * alpha, alpha]) {
                    *sum += value * across * down;
                }
            }
        }
        let alpha = sums[3].max(f64::MIN_POSITIVE);
        [sums[0] / alpha, sums[1] / alpha, sums[2] / alpha, sums[3] / (length * length)]
    });
    boxes.collect()
}

/// How far the small picture is from the averages: in the mean, and at most.
fn difference(small: &Reduced, expected: &[[f64; 4]]) -> (f64, f64) {
    let each = small.pixels().as_flattened().iter().zip(expected.as_flattened());
    let differences: Vec<f64> = each.map(|(&value, expected)| (f64::from(value) - expected).abs()).collect();
    let count = u32::try_from(differences.len()).unwrap();
    (differences.iter().sum::<f64>() / f64::from(count), differences.into_iter().fold(0.0, f64::max))
}

fn rgba_rows(pixels: &[[u8; 4]], side: u32) -> Vec<u8> {
    pixels.chunks(side as usize).flat_map(|row| [&[0], row.as_flattened()].concat()).collect()
}

/// The same pixels in the order of the seven passes.
fn interlaced_rows(pixels: &[[u8; 4]], side: u32) -> Vec<u8> {
    let mut rows = Vec::new();
    for (x0, y0, across, down) in
        [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    {
        for y in (y0..side).step_by(down).filter(|_| x0 < side) {
            rows.push(0);
            rows.extend((x0..side).step_by(across).flat_map(|x| pixels[(y * side + x) as usize]));
        }
    }
    rows
}

/// Colours of transparent pixels do not shine through, and half transparent ones count half.
#[test]
fn a_png_is_averaged_by_boxes_colours_by_their_alpha_interlaced_or_not() {
    let mut pixels = pattern(SIDE);
    for (place, pixel) in (0_u8..=255).cycle().zip(&mut pixels) {
        pixel[3] = place.wrapping_mul(37);
    }
    let straight = png(SIDE, (6, 8), 0, &[], &rgba_rows(&pixels, SIDE));
    let interlaced = png(SIDE, (6, 8), 1, &[], &interlaced_rows(&pixels, SIDE));
    for small in [1, 2, 7, 41, 50, 82] {
        let found = reduced(&straight, small);
        assert_eq!(found.side(), small);
        assert_eq!(reduced(&interlaced, small), found);
        let (_, most) = difference(&found, &averages(&pixels, SIDE, small));
        assert!(most < 0.51, "{small}: {most}");
    }
    for large in [SIDE, SIDE + 1, 5_000] {
        let found = reduced(&interlaced, large);
        assert_eq!(found.side(), SIDE);
        let visible = found.pixels().iter().zip(&pixels).filter(|(_, pixel)| pixel[3] > 0);
        assert!(visible.into_iter().all(|(found, pixel)| found == pixel));
    }
    for side in 1..=8 {
        let pixels = pattern(side);
        let found = reduced(&png(side, (6, 8), 1, &[], &interlaced_rows(&pixels, side)), side);
        assert_eq!(found.pixels(), pixels, "{side}");
    }
}

#[test]
fn every_kind_of_png_pixel_is_read() {
    let first = |kind, chunks: &[u8], row: &[u8]| {
        let rows = [&[0], row, &[0], row].concat();
        reduced(&png(2, kind, 0, chunks, &rows), 2).pixels()[..2].to_vec()
    };
    let transparent = |data: &[u8]| chunk(b"tRNS", data);
    let palette = chunk(b"PLTE", &[9, 8, 7, 6, 5, 4]);
    assert_eq!(first((0, 1), &[], &[0x40]), [[0, 0, 0, 255], [255, 255, 255, 255]]);
    assert_eq!(first((0, 2), &[], &[0x60]), [[85, 85, 85, 255], [170, 170, 170, 255]]);
    assert_eq!(first((0, 4), &transparent(&[0, 2]), &[0x12]), [[17, 17, 17, 255], [0, 0, 0, 0]]);
    for (depth, unused, row) in [(1, 0xfe, 0x40), (2, 0xfc, 0x10), (4, 0xf0, 0x01)] {
        let found = first((0, depth), &transparent(&[0xff, unused | 1]), &[row]);
        assert_eq!(found, [[0, 0, 0, 255], [0, 0, 0, 0]], "{depth}: the bits above the depth do not count");
    }
    assert_eq!(first((0, 8), &transparent(&[0, 5]), &[4, 5]), [[4, 4, 4, 255], [0, 0, 0, 0]]);
    let grey_16 = first((0, 16), &transparent(&[4, 1]), &[4, 0, 4, 1]);
    assert_eq!(grey_16, [[4, 4, 4, 255], [0, 0, 0, 0]], "all 16 bits say what is transparent");
    let rgb = first((2, 8), &transparent(&[0, 4, 0, 5, 0, 6]), &[1, 2, 3, 4, 5, 6]);
    assert_eq!(rgb, [[1, 2, 3, 255], [0, 0, 0, 0]]);
    assert_eq!(first((2, 16), &[], &[1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]), [[1, 2, 3, 255], [4, 5, 6, 255]]);
    let half = [palette.clone(), transparent(&[255, 128])].concat();
    assert_eq!(first((3, 1), &half, &[0x40]), [[9, 8, 7, 255], [6, 5, 4, 128]]);
    assert_eq!(first((3, 8), &palette, &[1, 0]), [[6, 5, 4, 255], [9, 8, 7, 255]]);
    assert_eq!(first((4, 8), &[], &[9, 128, 8, 255]), [[9, 9, 9, 128], [8, 8, 8, 255]]);
    assert_eq!(first((4, 16), &[], &[9, 0, 128, 0, 8, 0, 255, 0]), [[9, 9, 9, 128], [8, 8, 8, 255]]);
    assert_eq!(first((6, 16), &[], &[1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0])[0], [1, 2, 3, 4]);
}

fn jpeg(side: u32, sampling: SamplingFactor, progressive: bool, colour: ColorType) -> Vec<u8> {
    let pixels: Vec<u8> = match colour {
        ColorType::Luma => pattern(side).iter().map(|pixel| pixel[0]).collect(),
        ColorType::Cmyk | ColorType::CmykAsYcck => pattern(side)
            .iter()
            .flat_map(|&[red, green, blue, _]| [255 - red, 255 - green, 255 - blue, 0])
            .collect(),
        _ => pattern(side).into_iter().flat_map(|[red, green, blue, _]| [red, green, blue]).collect(),
    };
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 97);
    encoder.set_sampling_factor(sampling);
    encoder.set_progressive(progressive);
    encoder.set_restart_interval(3);
    let side = u16::try_from(side).unwrap();
    encoder.encode(&pixels, side, side, colour).unwrap();
    bytes
}

/// From all 64 coefficients of a block down to its mean; 104 pixels are 13 blocks.
#[test]
fn a_jpeg_is_averaged_from_as_few_coefficients_as_will_do() {
    let samplings = [SamplingFactor::R_4_4_4, SamplingFactor::R_4_2_2, SamplingFactor::R_4_2_0];
    for (side, smalls) in [(104, [104, 60, 52, 26, 13]), (SIDE, [SIDE, 50, 41, 20, 10])] {
        let pixels = pattern(side);
        for small in smalls {
            let expected = averages(&pixels, side, small);
            for (sampling, progressive) in samplings.into_iter().flat_map(|s| [(s, false), (s, true)]) {
                let bytes = jpeg(side, sampling, progressive, ColorType::Rgb);
                let found = reduced(&bytes, small);
                assert_eq!(found.side(), small);
                let (mean, most) = difference(&found, &expected);
                // Half as many samples of the colours as there are pixels cost some.
                assert!(mean < 3.0 && most < 24.0, "{side} to {small}, {sampling:?}: {mean}, {most}");
            }
        }
    }
}

/// The same coefficients, sent bit by bit in many scans and all at once.
#[test]
fn a_progressive_jpeg_shows_what_its_sequential_twin_shows() {
    let twins: [(&[u8], &[u8]); 3] = [
        (
            include_bytes!("../../../../tests/pictures/progressive.jpg"),
            include_bytes!("../../../../tests/pictures/progressive_as_baseline.jpg"),
        ),
        (
            include_bytes!("../../../../tests/pictures/progressive_restarts.jpg"),
            include_bytes!("../../../../tests/pictures/progressive_restarts_as_baseline.jpg"),
        ),
        // Its means come in four scans.
        (
            include_bytes!("../../../../tests/pictures/bit_by_bit.jpg"),
            include_bytes!("../../../../tests/pictures/restarts_420.jpg"),
        ),
    ];
    for (progressive, sequential) in twins {
        for small in 1..=48 {
            assert_eq!(reduced(progressive, small), reduced(sequential, small), "{small}");
        }
    }
}

#[test]
fn grey_and_inks_become_red_green_and_blue() {
    let pixels = pattern(64);
    let grey: Vec<[u8; 4]> = pixels.iter().map(|&[value, _, _, _]| [value, value, value, 255]).collect();
    for small in [64, 8] {
        let of = |colour| reduced(&jpeg(64, SamplingFactor::R_4_4_4, false, colour), small);
        let (mean, most) = difference(&of(ColorType::Luma), &averages(&grey, 64, small));
        assert!(mean < 1.5 && most < 8.0, "{small}: {mean}, {most}");
        for colour in [ColorType::Cmyk, ColorType::CmykAsYcck] {
            let (mean, most) = difference(&of(colour), &averages(&pixels, 64, small));
            assert!(mean < 2.0 && most < 12.0, "{colour:?} to {small}: {mean}, {most}");
        }
    }
}

/// Without any marker the numbers of the components decide.
#[test]
fn what_says_how_the_colours_of_a_jpeg_are_coded_is_heeded() {
    let whole = jpeg(16, SamplingFactor::R_4_4_4, false, ColorType::Rgb);
    let jfif = 2..20;
    assert_eq!(&whole[6..10], b"JFIF");
    let bare = [&whole[..jfif.start], &whole[jfif.end..]].concat();
    let with = |marker: &[u8]| reduced(&[&bare[..2], marker, &bare[2..]].concat(), 1).pixels()[0];
    let adobe = |transform| [&b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0"[..], &[transform]].concat();
    let as_ycbcr = reduced(&whole, 1).pixels()[0];
    assert_eq!(with(&[]), as_ycbcr);
    assert_eq!(with(&adobe(1)), as_ycbcr);
    let as_rgb = with(&adobe(0));
    assert_ne!(as_rgb, as_ycbcr);
    assert_eq!(with(&[&adobe(0), &whole[jfif]].concat()), as_ycbcr, "JFIF means YCbCr whatever Adobe says");
    let named = |ids: &[u8; 3]| {
        let mut bytes = bare.clone();
        let (frame, scan) = (find(&bytes, 0xc0), find(&bytes, 0xda));
        for (index, &id) in ids.iter().enumerate() {
            bytes[frame + 10 + 3 * index] = id;
            bytes[scan + 5 + 2 * index] = id;
        }
        reduced(&bytes, 1).pixels()[0]
    };
    assert_eq!(named(b"RGB"), as_rgb);
    assert_eq!(named(&[7, 8, 9]), as_ycbcr);
}

fn find(bytes: &[u8], marker: u8) -> usize {
    bytes.windows(2).position(|window| window == [0xff, marker]).unwrap()
}

#[test]
fn the_orientation_is_applied_before_and_after_stripping() {
    // Rows 1 2 / 3 4, as the standard shows them for each orientation.
    let expected = [
        [1, 2, 3, 4],
        [2, 1, 4, 3],
        [4, 3, 2, 1],
        [3, 4, 1, 2],
        [1, 3, 2, 4],
        [3, 1, 4, 2],
        [4, 2, 3, 1],
        [2, 4, 1, 3],
    ];
    for (value, expected) in (1_u8..).zip(expected) {
        let tiff =
            [&b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"[..], &[value, 0, 0, 0, 0, 0, 0]].concat();
        let bytes = png(2, (0, 8), 0, &chunk(b"eXIf", &tiff), &[0, 1, 2, 0, 3, 4]);
        let shown =
            |bytes: &[u8]| reduced(bytes, 2).pixels().iter().map(|pixel| pixel[0]).collect::<Vec<_>>();
        assert_eq!(shown(&bytes), expected, "{value}");
        assert_eq!(shown(&process(&bytes, 1).unwrap().contents), expected, "{value}");
    }
}

#[test]
fn a_reduced_picture_can_be_made_smaller_again() {
    let large = reduced(&png(SIDE, (6, 8), 0, &[], &rgba_rows(&pattern(SIDE), SIDE)), SIDE);
    for small in [1, 40, 82] {
        let (_, most) = difference(&large.smaller(small), &averages(large.pixels(), SIDE, small));
        assert!(most < 0.51, "{small}: {most}");
    }
    assert_eq!(large.smaller(SIDE), large);
    assert_eq!(large.smaller(9_999), large);
    assert_eq!(large.smaller(0).side(), 1);
}
