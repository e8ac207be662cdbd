//! A multipart upload in chunks of any size: never a panic, never more than the largest picture, and
//! the same verdict wherever the chunks are cut.

#![no_main]

use bytes::Bytes;
use futures_util::stream;
use libfuzzer_sys::fuzz_target;
use pictures::BYTES_MAX;
use minitill::http::refusal::Refusal;
use minitill::public::image_upload::read_file_part;

fn read(body: &[u8], chunk_bytes: usize) -> Result<Bytes, Refusal> {
    let chunks: Vec<_> = body.chunks(chunk_bytes).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers");
    runtime.block_on(read_file_part(stream::iter(chunks), "b".to_owned(), 64))
}

fuzz_target!(|data: &[u8]| {
    let Some((first, body)) = data.split_first() else { return };
    let cut = read(body, usize::from(*first).max(1));
    let whole = read(body, body.len().max(1));
    assert_eq!(cut.as_ref().ok(), whole.as_ref().ok());
    assert!(cut.is_ok_and(|bytes| bytes.len() <= BYTES_MAX) || whole.is_err());
});
