//! Reads the columns of an app's limits.

/// The limits in the row of an app. It returns from the function when a column is damaged.
macro_rules! limits_of_columns {
    ($row:expr) => {{
        let limit = |column: Option<i32>| {
            let limit = column.map(u32::try_from).transpose();
            limit.map_err(|_| $crate::StoreError::damaged("apps.*_per_second"))
        };
        domain::app::AppLimits {
            exchanges_per_second: limit($row.exchanges_per_second)?,
            reports_per_second: limit($row.reports_per_second)?,
            uploads_per_second: limit($row.uploads_per_second)?,
            tokens_per_second: limit($row.tokens_per_second)?,
        }
    }};
}
pub(crate) use limits_of_columns;
