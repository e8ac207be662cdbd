//! The colour profile of a PNG: whether an `iCCP` chunk holds one.

/// The longest profile that is kept, inflated. Programs inflate it when they show the picture.
const PROFILE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The longest name of a profile.
const NAME_BYTES_MAX: usize = 79;
/// Length of the header of an ICC profile.
const HEADER_BYTES: usize = 128;

/// Whether the data of an `iCCP` chunk are a name and an ICC profile whose header tells its length.
pub(super) fn is_one(data: &[u8]) -> bool {
    let Some(name) = data.iter().position(|byte| *byte == 0) else { return false };
    // The byte behind the name is the method of compression, of which there is one.
    let (1..=NAME_BYTES_MAX, Some((0, deflated))) = (name, data[name + 1..].split_first()) else {
        return false;
    };
    let Ok(profile) = fdeflate::decompress_to_vec_bounded(deflated, PROFILE_BYTES_MAX) else { return false };
    let length = profile.first_chunk::<4>().map(|length| u32::from_be_bytes(*length) as usize);
    profile.len() >= HEADER_BYTES && length == Some(profile.len()) && profile[36..40] == *b"acsp"
}
