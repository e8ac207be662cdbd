//! Measures processor time and memory of the crate, with pictures that it makes or with named files.
//!
//! Run it on Linux: `cargo run --release -p pictures --example figures [FILE...]`.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::fs;

use jpeg_encoder::{ColorType, Encoder};
use pictures::{HASH_SIDE, process, reduce};

/// The most pixels across that are accepted.
const SIDE: u16 = 7071;
/// The mean of so many runs counts.
const RUNS: u32 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    println!("| | bytes | process, ms | reduce to 480, ms | peak, MB |\n|---|---|---|---|---|");
    let files: Vec<String> = std::env::args().skip(1).collect();
    for file in &files {
        measure(file, &fs::read(file)?)?;
    }
    if files.is_empty() {
        measure("JPEG", &jpeg(ColorType::Rgb, 3, false)?)?;
        measure("JPEG, progressive", &jpeg(ColorType::Rgb, 3, true)?)?;
        measure("JPEG CMYK, progressive", &jpeg(ColorType::Cmyk, 4, true)?)?;
        measure("PNG, grey", &png(png::ColorType::Grayscale, 1)?)?;
        measure("PNG, RGBA", &png(png::ColorType::Rgba, 4)?)?;
    }
    Ok(())
}

/// Prints the mean times, and how much memory the process took on top of the file.
fn measure(name: &str, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    // From now on the peak is that of what follows.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = memory("VmRSS:");
    let started = processor_millis();
    for _ in 0..RUNS {
        drop(process(bytes, HASH_SIDE)?);
    }
    let processed = processor_millis();
    for _ in 0..RUNS {
        drop(reduce(bytes, 480)?);
    }
    let reduced = processor_millis();
    let peak = memory("VmHWM:") - before;
    let [process, reduce] = [processed - started, reduced - processed].map(|time| time / f64::from(RUNS));
    println!("| {name} | {} | {process:.0} | {reduce:.0} | {peak:.0} |", bytes.len());
    Ok(())
}

/// Time that this thread has run, in milliseconds.
fn processor_millis() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).map_or(0.0, |nanos| nanos / 1e6)
}

/// A line of the process's status, in megabytes; 0 where there is none.
fn memory(name: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().map_or(0.0, |kibibytes| kibibytes * 1024.0 / 1e6)
}

/// Soft waves with some grain, as many bytes a pixel as asked for.
fn pixels(channels: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let side = usize::from(SIDE);
    let bytes = (0..side * side * channels).map(|place| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (x, y) = (place / channels % side, place / channels / side);
        let wave = (x * y / 9_000 + x / 40 + y / 60) % 200;
        u8::try_from(wave).unwrap_or(0) + u8::try_from(state >> 29).unwrap_or(0)
    });
    bytes.collect()
}

fn jpeg(colour: ColorType, channels: usize, progressive: bool) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 70);
    encoder.set_progressive(progressive);
    encoder.encode(&pixels(channels), SIDE, SIDE, colour)?;
    Ok(bytes)
}

/// One that compresses well: 50 million pixels must fit into the limit.
fn png(colour: png::ColorType, channels: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    let rows: Vec<u8> = pixels(channels).into_iter().map(|value| value & 0xc0).collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, SIDE.into(), SIDE.into());
    encoder.set_color(colour);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&rows)?;
    writer.finish()?;
    Ok(bytes)
}
