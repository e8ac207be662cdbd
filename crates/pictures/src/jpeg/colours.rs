//! Converts the components of a JPEG to red, green and blue.

use super::frame::Frame;
use super::segments::AppSegments;

/// The colour space of the components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColourModel {
    Grey,
    YCbCr,
    Rgb,
    /// Inverted, as Adobe writes it and everybody after it: 255 is no ink.
    Cmyk,
    /// Three of the four inks as YCbCr.
    Ycck,
}

impl ColourModel {
    /// Decides as libjpeg does: by JFIF, else by Adobe's marker, else by the component ids.
    pub(super) fn of(frame: &Frame, segments: &AppSegments<'_>) -> Self {
        let ids: Vec<u8> = frame.components.iter().map(|component| component.id).collect();
        match (ids.as_slice(), segments.adobe_transform()) {
            ([_], _) => Self::Grey,
            ([_, _, _], _) if segments.jfif.is_some() => Self::YCbCr,
            ([_, _, _], Some(0)) | (b"RGB", None) => Self::Rgb,
            ([_, _, _], _) => Self::YCbCr,
            (_, Some(0) | None) => Self::Cmyk,
            (_, Some(_)) => Self::Ycck,
        }
    }

    /// Red, green, blue and full alpha of a pixel. `samples` beyond the last component do not count.
    pub(super) fn to_rgba(self, samples: [u8; 4]) -> [u8; 4] {
        let [first, second, third, black] = samples;
        match self {
            Self::Grey => [first, first, first, 255],
            Self::Rgb => [first, second, third, 255],
            Self::YCbCr => {
                let [red, green, blue] = rgb(first, second, third);
                [red, green, blue, 255]
            }
            Self::Cmyk => inked([first, second, third], black),
            Self::Ycck => inked(rgb(first, second, third).map(|value| 255 - value), black),
        }
    }
}

/// From YCbCr (JFIF 1.02, section 7), in units of 1 / 65,536.
fn rgb(luma: u8, blue: u8, red: u8) -> [u8; 3] {
    let luma = i32::from(luma) << 16;
    let (blue, red) = (i32::from(blue) - 128, i32::from(red) - 128);
    [luma + 91_881 * red, luma - 22_554 * blue - 46_802 * red, luma + 116_130 * blue].map(|value| {
        let value = (value + (1 << 15)) >> 16;
        u8::try_from(value).unwrap_or(if value < 0 { 0 } else { u8::MAX })
    })
}

/// The light that three inks and black leave.
fn inked(light: [u8; 3], black: u8) -> [u8; 4] {
    let [red, green, blue] = light.map(|light| {
        let light = (u32::from(light) * u32::from(black) + 127) / 255;
        u8::try_from(light).expect("a product of two bytes, divided by 255, is a byte")
    });
    [red, green, blue, 255]
}
