//! Pages of lists. A query reads one row more than the page holds, which shows whether there is
//! another page.

/// Cuts the rows to the page. Returns true when there is another page.
pub(crate) fn cut_to_page<T>(rows: &mut Vec<T>, limit: u32) -> bool {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    has_more
}
