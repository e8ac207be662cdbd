//! Makes a small picture of the low frequencies of a JPEG.

use super::coefficients::{BLOCK_SIDE, Coefficients, kept};
use super::colours::ColourModel;
use super::frame::Frame;
use super::segments::AppSegments;
use crate::boxes::Boxes;

/// The pixels of a picture that is `small` pixels wide.
pub(super) fn reduce(
    frame: &Frame,
    coefficients: &Coefficients,
    segments: &AppSegments<'_>,
    small: u32,
) -> Vec<[u8; 4]> {
    let side = frame.side;
    let model = ColourModel::of(frame, segments);
    let planes = coefficients.samples();
    let scale = kept(side, small, 1, 1);
    let rows = (side * scale).div_ceil(BLOCK_SIDE) as usize;
    let mut boxes = Boxes::new(side, BLOCK_SIDE / scale, small);
    let (across, down) = (scale * frame.horizontal_max, scale * frame.vertical_max);
    let (across, down) = (across as usize, down as usize);
    // A component of fewer samples gives each of them to several pixels.
    let columns: Vec<Vec<usize>> = (planes.iter().zip(&frame.components))
        .map(|(plane, component)| {
            (0..rows).map(|x| x * plane.wide * component.horizontal as usize / across).collect()
        })
        .collect();
    for y in 0..rows {
        let mut samples: [_; 4] = std::array::from_fn(|_| &[][..]);
        for (index, (plane, component)) in planes.iter().zip(&frame.components).enumerate() {
            let row = y * plane.high * component.vertical as usize / down;
            samples[index] = &plane.bytes[row * plane.width..][..plane.width];
        }
        let pixels = (0..rows).map(|x| {
            let mut pixel = [0; 4];
            for ((value, samples), columns) in pixel.iter_mut().zip(samples).zip(&columns) {
                *value = samples[columns[x]];
            }
            model.to_rgba(pixel)
        });
        boxes.add_row(y, 0, 1, pixels);
    }
    boxes.averages()
}
